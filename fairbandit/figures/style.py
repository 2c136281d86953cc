"""The style of all figures, and the look of each policy, the same in every figure."""

from __future__ import annotations

import logging
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import cycle
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from fairbandit import building

SMALL = 6.5
"""The font size of text within axes, in points."""

WIDTH = 6.75
"""The width of the text on a page in inches; a column is half as wide."""

_LETTERS = 18  # minimal number of small letters per inch


def applied() -> AbstractContextManager[None]:
    """Applies the style while a figure is drawn or saved, in place of the user's own settings."""
    import matplotlib

    logging.getLogger("fontTools").setLevel(logging.WARNING)  # logs each step of embedding a font
    return matplotlib.rc_context(fname=Path(__file__).with_name("page.mplstyle"))


class Look(building.Look, frozen=True, kw_only=True):
    """The look of one setting in a figure, under its name there."""

    name: str

    @property
    def style(self) -> dict[str, Any]:
        """matplotlib's arguments for a line."""
        dashes = self.line if isinstance(self.line, str) else (0, self.line)
        return {"color": self.colour, "linestyle": dashes, "label": self.name}


# the looks of settings that are no named policy
_OTHERS = (
    building.Look("#999933", (7, 1, 1, 1), "h", "--"),
    building.Look("#332288", (5, 3), "p", "||"),
    building.Look("#aa4499", (1, 2), "d", "xx"),
    building.Look("#117733", (3, 2, 3, 4), "H", "++"),
    building.Look("#661100", (8, 3, 2, 3), "X", "oo"),
    building.Look("#6699cc", "solid", "8", ".."),
    building.Look("#dd7788", (4, 2, 1, 2), "<", "//"),
    building.Look("#225533", (2, 1), ">", "\\\\"),
)

_GROUP_DASHES: Sequence[Any] = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (2, 1)))


def looks(names: Mapping[str, str]) -> dict[str, Look]:
    """Returns a look for each name in a figure.

    Args:
        names: the label of the policy of each name. If a policy has one name, it has the look that
            its file gives, in every figure; all other names get the remaining looks in order.

    >>> looks({"OFUL": "OFUL", "mine": "mine"})["OFUL"].colour
    '#e69f00'
    """
    own = {policy.label: policy.look for policy in building.named_policies().values()}
    count, others = Counter(names.values()), cycle(_OTHERS)
    made = {}
    for name, label in names.items():
        look = (own.get(label) if count[label] == 1 else None) or next(others)
        made[name] = Look(name=name, **asdict(look))
    return made


def group_line(code: int, groups: Sequence[str]) -> dict[str, Any]:
    """Returns matplotlib's arguments for the line of a group; colours go from dark to light."""
    import matplotlib
    from matplotlib.colors import to_hex

    shade = matplotlib.colormaps["viridis"](0.85 * code / max(len(groups) - 1, 1))
    dashes = _GROUP_DASHES[code % len(_GROUP_DASHES)]
    return {"color": to_hex(shade), "linestyle": dashes, "label": group_name(groups[code])}


def group_name(name: str) -> str:
    """Returns the display name of a group.

    >>> group_name("0"), group_name("two_or_more")
    ('group 0', 'two or more')
    """
    return f"group {name}" if name.isdigit() else name.replace("_", " ")


def wrapped(text: str, inches: float) -> str:
    """Breaks a text into lines of about the given width."""
    return textwrap.fill(text, max(1, int(_LETTERS * inches)), break_on_hyphens=False)

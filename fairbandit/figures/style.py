"""The style of all figures, and the look of each policy, the same in every figure."""

from __future__ import annotations

import logging
import textwrap
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from fairbandit.building import policy_labels

SMALL = 6.5
"""The font size of text within axes, in points."""

RC: dict[str, Any] = {
    "font.size": 7,
    "axes.titlesize": "medium",
    "figure.titlesize": "medium",
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "legend.columnspacing": 1.2,
    "text.parse_math": False,  # names of groups and policies may hold dollar signs
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.limits": (-4, 6),
    "lines.linewidth": 1.2,
    "lines.markersize": 3.2,
    "hatch.linewidth": 0.5,
    "errorbar.capsize": 1.5,
    "savefig.dpi": 200,
    "pdf.fonttype": 42,
}
"""The settings of matplotlib that differ from its defaults."""

WIDTH = 6.75
"""The width of the text on a page in inches; a column is half as wide."""

_LETTERS = 18  # minimal number of small letters per inch


def applied() -> AbstractContextManager[None]:
    """Applies the style while a figure is drawn or saved, in place of the user's own settings."""
    import matplotlib

    logging.getLogger("fontTools").setLevel(logging.WARNING)  # logs each step of embedding a font
    settings: Any = {**dict(matplotlib.rcParamsDefault), **RC}
    return matplotlib.rc_context(settings)


Dashes = str | tuple[float, tuple[float, ...]]


@dataclass(frozen=True)
class Look:
    """The appearance of one policy in figures; looks also differ without colour."""

    name: str
    colour: str
    dashes: Dashes = "-"
    marker: str = "o"
    hatch: str = ""

    @property
    def line(self) -> dict[str, Any]:
        """matplotlib's arguments for a line."""
        return {"color": self.colour, "linestyle": self.dashes, "label": self.name}


# The first looks belong to the named policies, in their order. The paper's policies have Okabe and
# Ito's colours, which colour-blind readers can distinguish.
_LOOKS: Sequence[tuple[str, Dashes, str, str]] = (
    ("#777777", ":", "x", "...."),
    ("#e69f00", "--", "s", "////"),
    ("#d55e00", "-.", "v", "\\\\\\\\"),
    ("#8c564b", (0, (8, 1, 2, 1)), "<", "//"),
    ("#bcbd22", (0, (3, 2, 3, 4)), ">", "\\\\"),
    ("#0072b2", "-", "o", ""),
    ("#9467bd", (0, (5, 3)), "p", "||"),
    ("#5e3c99", (0, (5, 1, 5, 4)), "h", "--"),
    ("#17becf", (0, (2, 1)), "d", "xx"),
    ("#08519c", (0, (8, 3, 2, 3)), "X", "oo"),
    ("#b2182b", (0, (4, 2, 1, 2)), "H", "++"),
    ("#4d4d4d", (0, (7, 1, 1, 1)), "8", ".."),
    ("#56b4e9", (0, (6, 1.5)), "^", "----"),
    ("#009e73", (0, (3, 1, 1, 1, 1, 1)), "D", "xxxx"),
    ("#cc79a7", (0, (1, 1)), "P", "++++"),
    ("#000000", (0, (9, 2)), "*", "oooo"),
    ("#882255", (0, (10, 3, 1, 3)), "1", "**"),
    ("#44aa99", (0, (2, 3)), "2", "OO"),
    ("#7f6000", (0, (12, 2)), "3", "**//"),
    ("#b8860b", (0, (1, 3)), "4", "xx.."),
    ("#5f9ea0", (0, (9, 1, 1, 1)), "+", "++.."),
    ("#8b008b", (0, (3, 1, 6, 1)), "|", "oo.."),
    ("#999933", (0, (7, 1, 1, 1)), "h", "--"),
    ("#332288", (0, (5, 3)), "p", "||"),
    ("#aa4499", (0, (1, 2)), "d", "xx"),
    ("#117733", (0, (3, 2, 3, 4)), "H", "++"),
    ("#661100", (0, (8, 3, 2, 3)), "X", "oo"),
    ("#6699cc", "-", "8", ".."),
    ("#dd7788", (0, (4, 2, 1, 2)), "<", "//"),
    ("#225533", (0, (2, 1)), ">", "\\\\"),
)
_OTHERS = _LOOKS[22:]

_GROUP_DASHES: tuple[Dashes, ...] = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (2, 1)))


def looks(labels: Iterable[str]) -> dict[str, Look]:
    """Returns a look for each run of a figure.

    A named policy always has its own look; other labels get the remaining looks in order.

    >>> looks(["oful", "mine"])["oful"] == looks(["mine", "oful"])["oful"]
    True
    """
    listed = list(labels)
    by_label = dict(zip(policy_labels(), _LOOKS, strict=False))
    others = [label for label in dict.fromkeys(listed) if label not in by_label]
    by_label.update(zip(others, cycle(_OTHERS), strict=False))
    return {label: Look(policy_name(label), *by_label[label]) for label in listed}


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


def policy_name(label: str) -> str:
    """Returns the display name of a policy, or of a label that begins with a policy.

    >>> policy_name("oful, exploration=0.1"), policy_name("my_policy")
    ('OFUL, exploration=0.1', 'my policy')
    """
    name, comma, rest = label.partition(",")
    return f"{policy_labels().get(name, name.replace('_', ' '))}{comma}{rest}"


def wrapped(text: str, inches: float) -> str:
    """Breaks a text into lines of about the given width."""
    return textwrap.fill(text, max(1, int(_LETTERS * inches)))

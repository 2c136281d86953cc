"""The style of all figures, and the look of each policy, the same in every figure."""

from __future__ import annotations

import logging
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from unicodedata import east_asian_width

from msgspec.structs import asdict

from fairbandit.errors import visible
from fairbandit.policy.build import PolicyLook, named_policies

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 6.75
"""The width of the text on a page in inches."""

# letters that a font lacks are taken from the next installed one
_FONTS = (
    *("DejaVu Sans", "Noto Sans", "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans Devanagari"),
    *("Noto Sans Thai", "Arial Unicode MS", "Hiragino Sans", "Microsoft YaHei", "Malgun Gothic"),
    *("Nirmala UI", "WenQuanYi Zen Hei", "DejaVu Sans Mono"),
)


@contextmanager
def applied() -> Iterator[None]:
    """Applies `page.mplstyle` while a figure is drawn or saved, in place of the user's settings."""
    import matplotlib.style
    from matplotlib.font_manager import fontManager

    logging.getLogger("fontTools").setLevel(logging.WARNING)  # logs each step of embedding a font
    installed = {*fontManager.get_font_names()}
    fonts: Any = {"font.family": [font for font in _FONTS if font in installed]}
    file = Path(__file__).with_name("page.mplstyle")
    with matplotlib.style.context([file, fonts], after_reset=True):
        yield


def setting(name: str) -> Any:
    """Returns a setting of the style that is applied."""
    import matplotlib

    settings: Any = matplotlib.rcParams
    return settings[name]


class Look(PolicyLook, frozen=True, kw_only=True):
    """The look of one setting in a figure, under its name there."""

    name: str

    @property
    def style(self) -> dict[str, Any]:
        """matplotlib's arguments for a line."""
        dashes = self.line if isinstance(self.line, str) else (0, self.line)
        return {"color": self.colour, "linestyle": dashes, "label": self.name}


# the looks of settings that are not named policies
_OTHERS = (
    PolicyLook("#999933", (7, 1, 1, 1), "h", "--"),
    PolicyLook("#332288", (5, 3), "p", "||"),
    PolicyLook("#aa4499", (1, 2), "d", "xx"),
    PolicyLook("#117733", (3, 2, 3, 4), "H", "++"),
    PolicyLook("#661100", (8, 3, 2, 3), "X", "oo"),
    PolicyLook("#6699cc", "solid", "8", ".."),
    PolicyLook("#dd7788", (4, 2, 1, 2), "<", "//"),
    PolicyLook("#225533", (2, 1), ">", "\\\\"),
)

_MAX_NAME = 80  # characters of the name of a group

_GROUP_DASHES: Sequence[Any] = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (2, 1)))


def looks(names: Mapping[str, str]) -> dict[str, Look]:
    """Returns a look for each name in a figure, given the label of its policy.

    If a policy has one name, it has its own look in every figure; all other names get the remaining
    looks in order.

    >>> looks({"OFUL": "OFUL", "mine": "mine"})["OFUL"].colour
    '#e69f00'
    """
    named_looks = {policy.label: policy.look for policy in named_policies().values()}
    count, spare_looks = Counter(names.values()), cycle(_OTHERS)
    made = {}
    for name, label in names.items():
        look = (named_looks.get(label) if count[label] == 1 else None) or next(spare_looks)
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
    name = visible(name)
    if len(name) > _MAX_NAME:
        name = name[: _MAX_NAME - 1] + "…"
    return f"group {name}" if name.isdigit() else name.replace("_", " ")


def inches(text: str, points: float) -> float:
    """Returns the approximate width of a line of text: a letter takes 0.57 of its size, or more."""
    wide = sum(east_asian_width(letter) in "WF" for letter in text)
    return (0.57 * len(text) + 0.45 * wide) * points / 72


def room_below(axes: Axes) -> float:
    """Returns the width for texts below a panel in inches: its column without the numbers at y."""
    figure, part = cast(Any, (axes.figure, axes.get_subplotspec()))
    share = len(part.colspan) / part.get_gridspec().ncols
    return float(figure.get_figwidth() * share - 0.8)


def write_numbers(axes: Axes, width: float) -> None:
    """Writes large numbers at the axes as 12,000, so few that they fit in a width in inches."""
    from matplotlib.ticker import ScalarFormatter

    # matplotlib spaces ticks by the size that applies when the figure is saved, unless given here
    axes.tick_params(labelsize=setting("xtick.labelsize"))
    for axis in (axes.xaxis, axes.yaxis):
        most = max(map(abs, axis.get_view_interval()))
        if most < 1000 or not isinstance(axis.get_major_formatter(), ScalarFormatter):
            continue
        axis.set_major_formatter("{x:,.12g}")
        if axis is axes.xaxis:
            room = inches(f"{most:,.0f} ", setting("xtick.labelsize"))
            axes.locator_params(axis="x", nbins=max(1, min(9, int(width / room))))


def wrapped(text: str, width: float, points: float | None = None) -> str:
    """Breaks a text into lines of at most about a width in inches; only long words are parted."""
    each = inches(text, points or float(setting("font.size"))) / max(len(text), 1)
    most = max(1, int(width / each)) if text else 1
    return textwrap.fill(text, most, break_on_hyphens=False)


def shortened(text: str, width: float, points: float | None = None, most: int = 1) -> str:
    """Returns the first lines of a wrapped text, with "…" in place of the others."""
    lines = wrapped(text, width, points).split("\n")
    return "\n".join(lines[:most]) + "…" * (len(lines) > most)

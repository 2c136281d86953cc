"""The style of all figures, and the look of each policy, the same in every figure."""

from __future__ import annotations

import logging
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast
from unicodedata import east_asian_width

import msgspec
from msgspec import Meta
from msgspec.structs import asdict

from fairbandit.errors import visible
from fairbandit.policy.build import PolicyFile, in_files, policy_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLES = ("page", "column", "slides")
"""The styles, files of matplotlib's settings beside this module; `page` is the base of all."""

WIDTH = 6.75
"""The width of the text on a page in inches."""

_FONTS = (
    *("DejaVu Sans", "Noto Sans", "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans Devanagari"),
    *("Noto Sans Thai", "Arial Unicode MS", "Hiragino Sans", "Microsoft YaHei", "Malgun Gothic"),
    *("Nirmala UI", "WenQuanYi Zen Hei", "DejaVu Sans Mono"),
)

Dashes = tuple[Annotated[float, Meta(gt=0)], ...]
"""The lengths of the dashes and gaps of a line."""


@contextmanager
def applied(style: str = "page") -> Iterator[None]:
    """Applies one of `STYLES` while a figure is drawn or saved, in place of the user's settings.

    Letters that the first font lacks are taken from the next installed one in `_FONTS`; matplotlib
    warns of letters that are in none.
    """
    import matplotlib.style
    from matplotlib.font_manager import fontManager

    logging.getLogger("fontTools").setLevel(logging.WARNING)  # logs each step of embedding a font
    installed = {*fontManager.get_font_names()}
    fonts: Any = {"font.family": [font for font in _FONTS if font in installed]}
    files = [Path(__file__).with_name(f"{name}.mplstyle") for name in ("page", style)]
    with matplotlib.style.context([*files, fonts], after_reset=True):
        yield


def setting(name: str) -> Any:
    """Returns a setting of the style that is applied."""
    import matplotlib

    settings: Any = matplotlib.rcParams
    return settings[name]


def scale() -> float:
    """Returns the size of texts in the style that is applied, relative to `page`."""
    return float(setting("font.size")) / 7


class OwnLook(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The look of a policy in figures; looks differ without colour, too.

    Attributes:
        colour: the colour, as #rrggbb.
        line: the style of lines: a name, or the lengths of dashes and gaps in points.
        marker: the marker of points, a letter or sign of matplotlib.
        hatch: the pattern of bars, in the signs of matplotlib.
    """

    colour: Annotated[str, Meta(pattern=r"\A#[0-9a-f]{6}\Z")]
    line: Literal["solid", "dashed", "dashdot", "dotted"] | Dashes = "solid"
    marker: Annotated[str, Meta(pattern=r"\A[.,ov^<>12348spP*hH+xXDd|_]\Z")] = "o"
    hatch: Annotated[str, Meta(pattern=r"\A[-/\\|+xoO.*]*\Z")] = ""


class _LookInFile(PolicyFile, frozen=True):
    look: OwnLook | None = None


class Look(OwnLook, frozen=True, kw_only=True):
    """The look of one setting in a figure, under its name there."""

    name: str

    @property
    def style(self) -> dict[str, Any]:
        """matplotlib's arguments for a line."""
        dashes = self.line if isinstance(self.line, str) else (0, self.line)
        return {"color": self.colour, "linestyle": dashes, "label": self.name}


_LOOKS = {
    "uniform": OwnLook("#777777", "dotted", "x", "...."),
    "oful": OwnLook("#e69f00", "dashed", "s", "////"),
    "greedy": OwnLook("#d55e00", "dashdot", "v", "\\\\\\\\"),
    "epsilon_greedy": OwnLook("#8c564b", (8, 1, 2, 1), "<", "//"),
    "lin_ts": OwnLook("#bcbd22", (3, 2, 3, 4), ">", "\\\\"),
    "fair_greedy": OwnLook("#0072b2", "solid", "o", ""),
    "interval_chain": OwnLook("#9467bd", (5, 3), "p", "||"),
    "rank_interval_chain": OwnLook("#5e3c99", (5, 1, 5, 4), "h", "--"),
    "fairx_lints": OwnLook("#17becf", (2, 1), "d", "xx"),
    "fairx_rank": OwnLook("#08519c", (8, 3, 2, 3), "X", "oo"),
    "minimum_pull": OwnLook("#b2182b", (4, 2, 1, 2), "H", "++"),
    "group_parity": OwnLook("#4d4d4d", (7, 1, 1, 1), "8", ".."),
    "fa_ir": OwnLook("#a6761d", (6, 2, 2, 2), "<", "||.."),
    "fair_greedy_oracle_cdf": OwnLook("#56b4e9", (6, 1.5), "^", "----"),
    "fair_greedy_oracle_rewards": OwnLook("#009e73", (3, 1, 1, 1, 1, 1), "D", "xxxx"),
    "gmf": OwnLook("#cc79a7", (1, 1), "P", "++++"),
    "optimal": OwnLook("#000000", (9, 2), "*", "oooo"),
    "forgetting_greedy": OwnLook("#882255", (10, 3, 1, 3), "1", "**"),
    "order_greedy": OwnLook("#44aa99", (2, 3), "2", "OO"),
    "order_scores": OwnLook("#7f6000", (12, 2), "3", "**//"),
    "fair_rolling": OwnLook("#b8860b", (1, 3), "4", "xx.."),
    "rolling_greedy": OwnLook("#5f9ea0", (9, 1, 1, 1), "+", "++.."),
    "secretary": OwnLook("#8b008b", (3, 1, 6, 1), "|", "oo.."),
    "secretary_by_group": OwnLook("#2f4f4f", (6, 1, 3, 1), "_", "--.."),
}

# the looks of settings that are no named policy
_OTHERS = (
    OwnLook("#999933", (7, 1, 1, 1), "h", "--"),
    OwnLook("#332288", (5, 3), "p", "||"),
    OwnLook("#aa4499", (1, 2), "d", "xx"),
    OwnLook("#117733", (3, 2, 3, 4), "H", "++"),
    OwnLook("#661100", (8, 3, 2, 3), "X", "oo"),
    OwnLook("#6699cc", "solid", "8", ".."),
    OwnLook("#dd7788", (4, 2, 1, 2), "<", "//"),
    OwnLook("#225533", (2, 1), ">", "\\\\"),
)

_LONGEST = 80  # characters of the name of a group

_GROUP_DASHES: Sequence[Any] = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (2, 1)))


def own_looks() -> dict[str, OwnLook]:
    """Returns the looks of named policies: fairbandit's own, and the looks in users' files.

    Raises:
        FairbanditError: the look in a file is not valid.
    """
    given = {name: file.look for name, file in in_files(_LookInFile).items() if file.look}
    return _LOOKS | given


def looks(names: Mapping[str, str]) -> dict[str, Look]:
    """Returns a look for each name in a figure.

    Args:
        names: the label of the policy of each name. If a policy has one name, it has its own
            look in every figure; all other names get the remaining looks in order.

    >>> looks({"OFUL": "OFUL", "mine": "mine"})["OFUL"].colour
    '#e69f00'
    """
    own = {policy_label(name): look for name, look in own_looks().items()}
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
    name = visible(name)
    if len(name) > _LONGEST:
        name = name[: _LONGEST - 1] + "…"
    return f"group {name}" if name.isdigit() else name.replace("_", " ")


def inches(text: str, points: float) -> float:
    """Returns about the width of a line of text: 0.57 of its size a letter, if not a wide one."""
    wide = sum(east_asian_width(letter) in "WF" for letter in text)
    return (0.57 * len(text) + 0.45 * wide) * points / 72


def room_below(axes: Axes) -> float:
    """Returns the width for texts below a panel in inches: its column without the numbers at y."""
    figure, part = cast(Any, (axes.figure, axes.get_subplotspec()))
    share = len(part.colspan) / part.get_gridspec().ncols
    return float(figure.get_figwidth() * share - 0.8 * scale())


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

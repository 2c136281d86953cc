"""The style of all figures, and the look of each policy, which is the same in every figure."""

from __future__ import annotations

import logging
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any
from zlib import crc32

LABEL, SMALL = 7.5, 6.5
"""Points: the sizes of the text beside axes, and of all other text."""

DPI = 100
"""Pixels of an inch while a figure is laid out."""

RC: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 7,
    "axes.labelsize": LABEL,
    "axes.titlesize": LABEL,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "legend.borderpad": 0.2,
    "legend.handlelength": 2.6,
    "legend.columnspacing": 1.2,
    "legend.title_fontsize": SMALL,
    "text.parse_math": False,  # names of groups and policies may hold dollar signs
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.limits": (-4, 6),
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.2,
    "hatch.linewidth": 0.5,
    "errorbar.capsize": 1.5,
    "figure.dpi": DPI,
    "savefig.dpi": 200,
    "pdf.fonttype": 42,
}
"""matplotlib's settings."""

WIDTH = 6.75
"""Inches: the width of a page's text, of which a column is the half."""


@contextmanager
def applied() -> Iterator[None]:
    """Applies the style while a figure is drawn or saved, in place of the user's own settings."""
    import matplotlib

    settings: Any = {**dict(matplotlib.rcParamsDefault), **RC}
    chatty = logging.getLogger("fontTools")  # tells each step of embedding a font
    level = chatty.level
    chatty.setLevel(logging.WARNING)
    try:
        with matplotlib.rc_context(settings):
            yield
    finally:
        chatty.setLevel(level)


Dashes = str | tuple[float, tuple[float, ...]]


@dataclass(frozen=True)
class Look:
    """How figures draw one policy. `looks` gives policies different ones, also without colour.

    Attributes:
        name: the policy's name as it is written in figures.
        colour: the colour of lines, points and bars.
        dashes: the dash pattern of lines.
        marker: the marker of points, which is repeated along lines.
        hatch: the hatching of bars.
    """

    name: str
    colour: str
    dashes: Dashes = "-"
    marker: str = "o"
    hatch: str = ""

    @property
    def line(self) -> dict[str, Any]:
        """matplotlib's arguments for a line."""
        return {"color": self.colour, "linestyle": self.dashes, "label": self.name}


# Okabe and Ito's colours, which the colour-blind tell apart
_KNOWN = MappingProxyType(
    {
        "uniform": Look("Uniform random", "#777777", ":", "x", "...."),
        "oful": Look("OFUL", "#e69f00", "--", "s", "////"),
        "greedy": Look("Greedy", "#d55e00", "-.", "v", "\\\\\\\\"),
        "fair_greedy": Look("Fair-Greedy", "#0072b2", "-", "o", ""),
        "fair_greedy_oracle_cdf": Look(
            "Fair-Greedy (oracle CDF)", "#56b4e9", (0, (6, 1.5)), "^", "----"
        ),
        "fair_greedy_oracle_rewards": Look(
            "Fair-Greedy (oracle rewards)", "#009e73", (0, (3, 1, 1, 1, 1, 1)), "D", "xxxx"
        ),
        "gmf": Look("GMF (fair optimum)", "#cc79a7", (0, (1, 1)), "P", "++++"),
        "optimal": Look("Optimal (reward optimum)", "#000000", (0, (9, 2)), "*", "oooo"),
    }
)

_NAMES = MappingProxyType(
    {
        "epsilon_greedy": "ε-Greedy",
        "lin_ts": "LinTS",
        "interval_chain": "Interval chain",
        "rank_interval_chain": "Rank interval chain",
        "fairx_lints": "FairX-LinTS",
        "fairx_rank": "FairX (rank)",
        "minimum_pull": "Minimum pull",
        "group_parity": "Group parity",
        **{policy: look.name for policy, look in _KNOWN.items()},
    }
)

_OTHERS = (
    Look("", "#882255", (0, (4, 2, 1, 2)), "<", "//"),
    Look("", "#44aa99", (0, (2, 1)), ">", "\\\\"),
    Look("", "#999933", (0, (7, 1, 1, 1)), "h", "--"),
    Look("", "#332288", (0, (5, 3)), "p", "||"),
    Look("", "#aa4499", (0, (1, 2)), "d", "xx"),
    Look("", "#117733", (0, (3, 2, 3, 4)), "H", "++"),
    Look("", "#661100", (0, (8, 3, 2, 3)), "X", "oo"),
    Look("", "#6699cc", "-", "8", ".."),
)

_GROUP_DASHES: tuple[Dashes, ...] = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (2, 1)))


def looks(labels: Iterable[str]) -> dict[str, Look]:
    """Returns a look for each run of a figure.

    A paper's policy has its own, always; another label gets one by its name, or the next free one.

    Args:
        labels: the runs' labels, each once.

    >>> looks(["oful", "mine"])["oful"].name
    'OFUL'
    >>> looks(["mine"])["mine"] == looks(["uniform", "oful", "mine"])["mine"]
    True
    """
    listed, made, free = list(labels), dict(_KNOWN), set(range(len(_OTHERS)))
    for label in sorted(set(listed) - set(_KNOWN)):
        at = crc32(label.encode()) % len(_OTHERS)
        slot = min(free or {at}, key=lambda other: (other - at) % len(_OTHERS))
        free.discard(slot)
        made[label] = replace(_OTHERS[slot], name=_readable(label))
    return {label: made[label] for label in listed}


def group_line(code: int, groups: Sequence[str]) -> dict[str, Any]:
    """Returns matplotlib's arguments for the line of one of all groups, from dark to light."""
    import matplotlib
    from matplotlib.colors import to_hex

    shade = matplotlib.colormaps["viridis"](0.85 * code / max(len(groups) - 1, 1))
    dashes = _GROUP_DASHES[code % len(_GROUP_DASHES)]
    return {"color": to_hex(shade), "linestyle": dashes, "label": group_name(groups[code])}


def group_name(name: str) -> str:
    """Returns the name of a group as figures write it.

    >>> group_name("0"), group_name("two_or_more")
    ('group 0', 'two or more')
    """
    return f"group {name}" if name.isdigit() else name.replace("_", " ")


def _readable(label: str) -> str:
    """Returns a label with the paper's name of its policy.

    >>> _readable("oful, exploration=0.1")
    'OFUL, exploration=0.1'
    """
    name, comma, rest = label.partition(",")
    return f"{policy_name(name)}{comma}{rest}"


def policy_name(name: str) -> str:
    """Returns the name of a policy as figures write it.

    >>> policy_name("oful"), policy_name("my_policy")
    ('OFUL', 'my policy')
    """
    return _NAMES.get(name, name.replace("_", " "))


def metric_name(column: str) -> str:
    """Returns the name of a metric as figures write it, by its column.

    >>> metric_name("fair_regret"), metric_name("share_gap")
    ('fair pseudo-regret', 'share gap')
    """
    name = column
    return name.replace("_", " ")


def text_width(text: str, size: float) -> float:
    """Returns the width in inches of a line of text at a font size in points, at the most.

    Letters are drawn at whole pixels, which makes a text some hundredths wider.
    """
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family=RC["font.family"], size=size)
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return 1.05 * float(width) / 72


def wrapped(text: str, inches: float, size: float, lines: int | None = None) -> str:
    """Breaks a text into lines that are no wider than so many inches at a font size in points.

    If a largest number of lines is given, an ellipsis stands for words beyond.
    """
    broken = [text]
    letters = min(len(text), int(72 * inches / (0.3 * size)))  # no letter is so narrow on average
    while letters > 1 and any(text_width(line, size) > inches for line in broken):
        letters -= 1
        broken = textwrap.wrap(text, letters, max_lines=lines, placeholder="…")
    return "\n".join(broken)

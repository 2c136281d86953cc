"""Panels that draw how often the members of each group are selected."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.figures.parts import Part
from fairbandit.figures.style import DPI, SMALL, Look, group_name, text_width, wrapped
from fairbandit.maths.moments import Floats
from fairbandit.results import PooledRuns, Scene

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROOM = 0.84  # the share of a group's room that its runs fill
_LINE = 0.11  # inches between lines of groups' names
_SLANTED, _UPRIGHT = 0.6, 1.3  # the most inches of a line of a name that is slanted or upright


def selected_share(axes: Axes, part: Part) -> None:
    """Draws selected ÷ received of each group in percent, and the line 1/K of equal shares.

    An error bar is one std long to either side of the mean, and ends at 0.
    """
    equal, width = 100 / part.whole.candidates, _ROOM / len(part.scene.runs)
    for run, look, at in _places(part):
        mean, errors = _spread(run, "selection_rate", 100.0)
        style: dict[str, Any] = {
            "color": look.colour,
            "edgecolor": "white",
            "hatch": look.hatch,
            "linewidth": 0.3,
        }
        bars = {"linewidth": 0.7, "ecolor": "black", "capsize": 1.2}
        axes.bar(at, mean, width, yerr=errors, error_kw=bars, label=look.name, **style)
    axes.axhline(equal, color="black", linewidth=0.8, linestyle="--", label="1/K")
    right = axes.get_yaxis_transform()
    axes.text(1.0, equal, " 1/K", transform=right, va="center", fontsize=SMALL)
    axes.set_ylabel("selected candidates [%]")
    _, highest = _range(part.whole, "selection_rate", 100.0)
    axes.set_ylim(0, 1.05 * max(equal, highest))
    _name_groups(axes, part.whole)


def selected_count(axes: Axes, part: Part) -> None:
    """Draws how many candidates of each group are selected, as points on a log scale.

    If a group was never selected, the scale is linear from 0 to 1. An error bar is one std long to
    either side of the mean; one that ends at 0 or below leaves a log scale.
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

    lowest, highest = _range(part.whole, "selected", 1.0)
    if lowest > 0:
        ticks = _log_ticks(0.9 * lowest, 1.1 * highest)
        axes.set_yscale("log")
        axes.set_ylim(ticks[0], ticks[-1])
    else:
        ticks = [0.0, *_log_ticks(1.0, max(1.1 * highest, 2.0))]
        axes.set_yscale("symlog", linthresh=1.0)
        axes.set_ylim(-0.2, ticks[-1])
    axes.yaxis.set_major_locator(FixedLocator(ticks))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    for run, look, at in _places(part):
        mean, errors = _spread(run, "selected", 1.0)
        style: dict[str, Any] = {"markersize": 3.2, "elinewidth": 0.8, "label": look.name}
        axes.errorbar(at, mean, yerr=errors, fmt=look.marker, color=look.colour, **style)
    axes.set_ylabel("selected candidates")
    _name_groups(axes, part.whole)


def _places(part: Part) -> Iterator[tuple[PooledRuns, Look, Floats]]:
    """Yields runs and looks, and where they stand beside each other at each group."""
    runs = part.scene.runs
    groups: Floats = np.arange(len(part.whole.groups), dtype=np.float64)
    for place, run in enumerate(runs):
        shift = _ROOM * ((place + 0.5) / len(runs) - 0.5)
        yield run, part.looks[run.label], groups + shift


def _spread(run: PooledRuns, quantity: str, scale: float) -> tuple[Floats, Floats | None]:
    """The means by group, (G,), and the lengths of the error bars below and above, (2, G)."""
    mean, std = (scale * values for values in run.by_group(quantity))
    return mean, None if np.isnan(std).all() else np.stack([np.minimum(mean, std), std])


def _range(scene: Scene, quantity: str, scale: float) -> tuple[float, float]:
    """The lowest mean of any run and group, and the highest upper end of an error bar."""
    means, stds = scale * np.array([run.by_group(quantity) for run in scene.runs]).swapaxes(0, 1)
    return float(np.nanmin(means)), float(np.nanmax(means + np.nan_to_num(stds)))


def _log_ticks(low: float, high: float) -> list[float]:
    """Round numbers from at most low to at least high; the further apart these are, the fewer.

    >>> _log_ticks(30.0, 150.0), _log_ticks(1.5, 400.0)
    ([20.0, 50.0, 100.0, 200.0], [1.0, 10.0, 100.0, 1000.0])
    """
    steps = range(1, 10) if high < 4 * low else (1, 2, 5) if high < 100 * low else (1,)
    exponents = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    ticks = [float(f"{step}e{exponent}") for exponent in exponents for step in steps]
    first = max(tick for tick in ticks if tick <= low)
    last = min(tick for tick in ticks if tick >= high)
    return [tick for tick in ticks if first <= tick <= last]


def _name_groups(axes: Axes, scene: Scene) -> None:
    """Writes the groups' names below the axis, slanted or upright if they are long."""
    names = [group_name(name) for name in scene.groups]
    longest = max(text_width(name, SMALL) for name in names)
    room = axes.get_window_extent().width / DPI / len(names)
    angle = 0 if longest < 0.9 * room else 30 if longest <= _SLANTED else 90
    if angle == 90:
        lines = max(1, int(room / _LINE))
        names = [wrapped(name, _UPRIGHT, SMALL, lines) for name in names]
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_xticks(range(len(names)), names, rotation=angle)
    if angle:
        style = {"ha": "right", "va": "center" if angle == 90 else "top"}
        for label in axes.get_xticklabels():
            label.set(rotation_mode="anchor", **style)

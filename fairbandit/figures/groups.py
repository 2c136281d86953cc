"""Panels that show how often candidates of each group are selected."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.figures.facets import Facet
from fairbandit.figures.style import SMALL, Look, group_name
from fairbandit.maths.moments import Floats
from fairbandit.results import PooledRuns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CLUSTER = 0.84  # the width of the runs' marks at a group; groups are at distance 1
_HORIZONTAL = 32  # the most letters of all groups' names together if they are not slanted


def selected_share(axes: Axes, facet: Facet) -> None:
    """Draws the percentage of each group's candidates that is selected, and a line at 1/K."""
    equal, width = 100 / facet.whole.candidates, _CLUSTER / len(facet.scene.runs)
    style: dict[str, Any] = {"edgecolor": "white", "linewidth": 0.3}
    style["error_kw"] = {"linewidth": 0.7, "ecolor": "black", "capsize": 1.2}
    for run, look, at in _positions(facet):
        mean, bars = (100 * part for part in _spread(facet, run, "selection_rate"))
        own: dict[str, Any] = {"color": look.colour, "hatch": look.hatch, "label": look.name}
        axes.bar(at, mean, width, yerr=bars, **style, **own)
    axes.axhline(equal, color="black", linewidth=0.8, linestyle="--", label="1/K")
    right = axes.get_yaxis_transform()
    axes.text(1.0, equal, " 1/K", transform=right, va="center", fontsize=SMALL)
    axes.set_ylabel("selected candidates [%]" + facet.spread)
    _, highest = _range(facet, "selection_rate")
    axes.set_ylim(0, 1.05 * max(equal, 100 * highest))
    _name_groups(axes, facet)


def selected_count(axes: Axes, facet: Facet) -> None:
    """Draws how many candidates of each group are selected, as points on a log scale.

    If a run never selected a group, the scale is linear from 0 to 1. An error bar that reaches 0 or
    less is cut off at the lower limit of the axis.
    """
    lowest, highest = _range(facet, "selected")
    top = 10.0 ** math.ceil(math.log10(max(highest, 2.0)))
    if lowest > 0:
        axes.set_yscale("log")
        axes.set_ylim(10.0 ** math.floor(math.log10(lowest)), top)
    else:
        axes.set_yscale("symlog", linthresh=1.0)
        axes.set_ylim(-0.2, top)
    axes.yaxis.set_major_formatter("{x:,.12g}")
    axes.yaxis.set_minor_formatter("")
    for run, look, at in _positions(facet):
        mean, bars = _spread(facet, run, "selected")
        style: dict[str, Any] = {"markersize": 3.2, "elinewidth": 0.8, "label": look.name}
        axes.errorbar(at, mean, yerr=bars, fmt=look.marker, color=look.colour, **style)
    axes.set_ylabel("selected candidates" + facet.spread)
    _name_groups(axes, facet)


def _positions(facet: Facet) -> Iterator[tuple[PooledRuns, Look, Floats]]:
    runs = facet.scene.runs
    groups: Floats = np.arange(len(facet.whole.groups), dtype=np.float64)
    for order, run in enumerate(runs):
        yield run, facet.looks[run.label], groups + _CLUSTER * ((order + 0.5) / len(runs) - 0.5)


def _spread(facet: Facet, run: PooledRuns, quantity: str) -> tuple[Floats, Floats]:
    """The means by group, (G,), and the lengths of the error bars below and above, (2, G)."""
    parts = ("n", "mean", "std")
    columns = [f"{quantity}_{group}" for group in run.groups]
    return facet.summarised([{p: run.results[f"{one}_{p}"] for p in parts} for one in columns])


def _range(facet: Facet, quantity: str) -> tuple[float, float]:
    """The lowest mean, and the highest upper end of an error bar, over all runs and groups."""
    spreads = [_spread(facet, run, quantity) for run in facet.whole.runs]
    means = np.stack([mean for mean, _ in spreads])
    above = np.nan_to_num(np.stack([bars[1] for _, bars in spreads]))
    return float(np.nanmin(means)), float(np.nanmax(means + above))


def _name_groups(axes: Axes, facet: Facet) -> None:
    names = [textwrap.shorten(group_name(one), 24, placeholder="…") for one in facet.whole.groups]
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_xticks(range(len(names)), names)
    if sum(map(len, names)) > _HORIZONTAL:
        for label in axes.get_xticklabels():
            label.set(rotation=40, rotation_mode="anchor", ha="right", va="top")

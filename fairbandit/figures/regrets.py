"""Panels that draw fair against standard regret at the last round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.errors import FairbanditError
from fairbandit.figures.facets import Facet
from fairbandit.figures.panels import limits, say_not_known
from fairbandit.maths.moments import Floats
from fairbandit.metrics import REGRETS
from fairbandit.results import PooledRuns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_RANK = "policy.rank.name"


def price(axes: Axes, facet: Facet) -> None:
    """Draws fair against standard regret at the last round, one point for each run."""
    _draw_runs(axes, facet)
    _set_axes(axes, facet)


def frontier(axes: Axes, facet: Facet) -> None:
    """Draws fair against standard regret at the last round over α of the rank `tradeoff`.

    A line joins the runs in the order of their weights α. Runs of other ranks are points beside it.

    Raises:
        FairbanditError: fewer than two runs of the rank `tradeoff`.
    """
    runs = facet.whole.runs
    others = [run for run in runs if run.settings.get(_RANK) != "tradeoff"]
    weighted = [run for run in runs if run.settings.get(_RANK) == "tradeoff"]
    found = [(float(run.settings["policy.rank.alpha"]), run) for run in weighted]
    if len(found) < 2:
        raise FairbanditError(
            "the frontier joins runs of policy/rank=tradeoff at several policy.rank.alpha; "
            f"found {len(found)} of them"
        )
    found.sort(key=lambda pair: pair[0])
    style = {"fmt": "o-", "color": "black", "markersize": 3.5, "linewidth": 1.0}
    bars = {"ecolor": "0.7", "elinewidth": 0.8}
    joined = [run for _, run in found]
    x, y = _points(axes, facet, joined, label="trade-off, by α", **style, **bars)
    beside: dict[str, Any] = {"xytext": (4, 3), "textcoords": "offset points", "fontsize": 6}
    for (alpha, _), right, up in zip(found, x, y, strict=True):
        axes.annotate(f"{alpha:g}", (right, up), **beside)
    if others:
        _draw_runs(axes, replace(facet, scene=facet.whole.among(others)))
    _set_axes(axes, facet)


def _draw_runs(axes: Axes, facet: Facet) -> None:
    """Draws a point for each run, in the look of its policy."""
    for run in facet.scene.runs:
        look = facet.looks[run.label]
        style = {"fmt": look.marker, "color": look.colour, "markersize": 5, "linewidth": 0.8}
        _points(axes, facet, [run], label=look.name, **style)


def _at_end(facet: Facet, runs: Sequence[PooledRuns]) -> list[tuple[Floats, Floats]]:
    """Means and bars of both regrets at T."""
    return [facet.summarised([run.metrics[column] for run in runs]) for column in REGRETS]


def _points(
    axes: Axes, facet: Facet, runs: Sequence[PooledRuns], **style: Any
) -> tuple[Floats, Floats]:
    """Draws points with bars, and returns where they are."""
    (x, across), (y, along) = _at_end(facet, runs)
    axes.errorbar(x, y, xerr=across, yerr=along, **style)
    return x, y


def _set_axes(axes: Axes, facet: Facet) -> None:
    """Labels the axes, and limits them to what is drawn of all runs."""
    runs = facet.whole.runs
    horizons = {run.rounds for run in runs}
    at = f"at T = {horizons.pop():,}" if len(horizons) == 1 else "at T"
    axes.set_xlabel(f"standard regret {at}")
    axes.set_ylabel(f"fair regret {at}{facet.spread}")
    for (mean, bars), axis in zip(_at_end(facet, runs), ("xlim", "ylim"), strict=True):
        if np.isnan(mean).all():
            say_not_known(axes)
            return
        below, above = np.nan_to_num(bars)
        low, high = float(np.nanmin(mean - below)), float(np.nanmax(mean + above))
        axes.set(**{axis: limits(low, high, float(np.nanmin(mean)))})

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


def price(axes: Axes, facet: Facet) -> None:
    """Draws fair against standard regret at the last round, one point for each run."""
    for run in facet.scene.runs:
        look = facet.looks[run.label]
        style = {"fmt": look.marker, "color": look.colour, "markersize": 5, "linewidth": 0.8}
        _points(axes, facet, [run], label=look.name, **style)
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


def frontier(axes: Axes, facet: Facet) -> None:
    """Draws fair against standard regret at the last round over α of the rank `tradeoff`.

    A line joins the runs in the order of their weights α. Runs of other ranks are points beside it.

    Raises:
        FairbanditError: fewer than two runs of the rank `tradeoff`.
    """
    runs = facet.whole.runs
    weighted = [run for run in runs if run.settings.get("policy.rank.name") == "tradeoff"]
    if len(weighted) < 2:
        raise FairbanditError(
            "the frontier joins runs of policy/rank=tradeoff at several policy.rank.alpha; "
            f"found {len(weighted)} of them"
        )
    weighted.sort(key=_alpha)
    style = {"fmt": "o-", "color": "black", "markersize": 3.5, "linewidth": 1.0}
    bars = {"ecolor": "0.7", "elinewidth": 0.8}
    x, y = _points(axes, facet, weighted, label="trade-off, by α", **style, **bars)
    beside: dict[str, Any] = {"xytext": (4, 3), "textcoords": "offset points", "fontsize": 6}
    for run, right, up in zip(weighted, x, y, strict=True):
        axes.annotate(f"{_alpha(run):g}", (right, up), **beside)
    others = [run for run in runs if run not in weighted]
    price(axes, replace(facet, scene=facet.whole.among(others)))


def _alpha(run: PooledRuns) -> float:
    return float(run.settings["policy.rank.alpha"])


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

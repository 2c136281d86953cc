"""Panels that draw fair against standard pseudo-regret at the last round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.errors import FairbanditError
from fairbandit.figures.panels import margins, say_not_known
from fairbandit.figures.parts import Part
from fairbandit.maths.moments import Floats
from fairbandit.results import PooledRuns

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def price(axes: Axes, part: Part) -> None:
    """Draws fair against standard pseudo-regret at the last round, one point for each run.

    An error bar is one std long to either side of the mean, and ends at 0, since no regret is less.
    """
    _draw_runs(axes, part)
    _set_axes(axes, part.whole.runs)


def frontier(axes: Axes, part: Part) -> None:
    """Draws fair against standard pseudo-regret at the last round over α of the rank `tradeoff`.

    A line joins the runs in the order of their weights α. Runs of other ranks are points beside it.

    Raises:
        FairbanditError: fewer than two runs of the rank `tradeoff`.
    """
    weighted = [run for run in part.whole.runs if _is_weighted(run)]
    others = [run for run in part.whole.runs if not _is_weighted(run)]
    found = [(float(run.settings["policy.rank.alpha"]), run) for run in weighted]
    if len(found) < 2:
        raise FairbanditError(
            "the frontier joins runs of policy/rank=tradeoff at several policy.rank.alpha; "
            f"found {len(found)} of them"
        )
    found.sort(key=lambda pair: pair[0])
    runs = [run for _, run in found]
    style = {"fmt": "o-", "color": "black", "markersize": 3.5, "linewidth": 1.0}
    error = {"ecolor": "0.7", "elinewidth": 0.8}
    (x, _), (y, _) = _points(axes, runs, label="trade-off, by α", **style, **error)
    for (alpha, _), right, up in zip(found, x, y, strict=True):
        axes.annotate(
            f"{alpha:g}", (right, up), xytext=(4, 3), textcoords="offset points", fontsize=6
        )
    if others:
        _draw_runs(axes, Part(part.whole.among(others), part.whole))
    _set_axes(axes, part.whole.runs)


def _is_weighted(run: PooledRuns) -> bool:
    return bool(run.settings["policy.rank.name"] == "tradeoff")


def _draw_runs(axes: Axes, part: Part) -> None:
    """Draws a point for each run, in the look of its policy."""
    for run in part.scene.runs:
        look = part.looks[run.label]
        style = {"fmt": look.marker, "color": look.colour, "markersize": 5, "linewidth": 0.8}
        _points(axes, [run], label=look.name, **style)


def _at_end(runs: Sequence[PooledRuns], column: str) -> tuple[Floats, Floats]:
    """Means of a regret at T, (n,), and the lengths of the error bars below and above, (2, n)."""
    spreads = [[run.metrics[column][of] for run in runs] for of in ("mean", "std")]
    mean, std = np.array(spreads, np.float64)
    return mean, np.stack([np.minimum(mean, std), std])


def _points(
    axes: Axes, runs: Sequence[PooledRuns], **style: Any
) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """Draws points with error bars, and returns them by axis."""
    x, y = (_at_end(runs, column) for column in ("standard_regret", "fair_regret"))
    axes.errorbar(x[0], y[0], xerr=x[1], yerr=y[1], **style)
    return x, y


def _set_axes(axes: Axes, runs: Sequence[PooledRuns]) -> None:
    """Labels the axes, and limits them to what is drawn of some runs."""
    horizons = {run.rounds for run in runs}
    at = f"T = {horizons.pop():,}" if len(horizons) == 1 else "T"
    axes.set_xlabel(f"standard pseudo-regret at {at}")
    axes.set_ylabel(f"fair pseudo-regret at {at}")
    for column, limit in (("standard_regret", axes.set_xlim), ("fair_regret", axes.set_ylim)):
        mean, errors = _at_end(runs, column)
        if np.isnan(mean).all():
            say_not_known(axes)
            return
        low, high = np.nan_to_num(errors)
        limit(*margins(float(np.nanmin(mean - low)), float(np.nanmax(mean + high))))

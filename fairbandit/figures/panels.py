"""Panels of rewards and regrets, each of which draws one quantity on axes of matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.errors import FairbanditError
from fairbandit.figures.facets import Facet
from fairbandit.figures.style import group_line, policy_name
from fairbandit.maths.moments import Floats
from fairbandit.metrics import REGRETS
from fairbandit.results import Curve, PooledRuns
from fairbandit.results.scenes import SAMPLER
from fairbandit.run.tensorboard import titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARK = 0.16  # of a panel's diagonal, between two markers of a curve


def distribution(axes: Axes, facet: Facet, which: str) -> None:
    """Draws the density or the cdf of the true (noise-free) rewards of each group, a curve a group.

    Groups whose distribution no run knows get no curve. If it is known of no group, it is that of
    the rewards in the round logs, and the axis says so.
    """
    scene = facet.whole
    known = any(rewards is not None for rewards in scene.rewards)
    for code, rewards in enumerate(scene.rewards if known else scene.sampled_rewards):
        if rewards is not None:
            axes.plot(rewards["value"], rewards[which], **group_line(code, scene.groups))
    sampled = SAMPLER in {run.policy for run in scene.runs}
    picks = f"the picks of\n{policy_name(SAMPLER)}" if sampled else "all picks"
    axes.set_xlabel("reward" if known else f"sampled reward of {picks}")
    axes.set_ylabel("CDF" if which == "cdf" else which)
    axes.set_ylim(bottom=0)


def curves(axes: Axes, facet: Facet, column: str) -> None:
    """Draws a metric over the rounds: the mean, and a band of one std or the interval of the mean.

    The axis begins at 0 if no mean is below.
    """
    runs, whole = facet.scene.runs, facet.whole.runs
    for place, run in enumerate(runs):
        look, curve = facet.looks[run.label], _known(run, column)
        if curve is None:
            axes.plot([], [], marker=look.marker, **look.line)
            continue
        marks = (_MARK * (place + 1) / (len(runs) + 1), _MARK)
        axes.plot(curve.rounds, curve.mean, marker=look.marker, markevery=marks, **look.line)
        band = facet.ends(curve.count, curve.mean, curve.std)
        axes.fill_between(curve.rounds, *band, color=look.colour, alpha=0.2, linewidth=0)
    axes.set_xlabel("round")
    axes.set_xlim(0, max(run.rounds for run in whole))
    axes.set_ylabel(titled(column) + facet.spread)
    known = [curve for run in whole if (curve := _known(run, column)) is not None]
    if not known:
        _say_not_known(axes)
        return
    means = np.concatenate([curve.mean for curve in known])
    bands = [facet.ends(curve.count, curve.mean, curve.std) for curve in known]
    least, edges = float(np.nanmin(means)), np.concatenate([*map(np.ravel, bands), means])
    bottom, top = _limits(float(np.nanmin(edges)), float(np.nanmax(edges)), least)
    axes.set_ylim(bottom if least < 0 else 0.0, top)


def _say_not_known(axes: Axes) -> None:
    axes.text(0.5, 0.5, "not known", transform=axes.transAxes, ha="center")
    axes.set_yticks([])


def _limits(low: float, high: float, least: float) -> tuple[float, float]:
    """The limits of an axis for values from low to high, with some margin.

    If the least mean is not below 0, neither is what is shown: the end of a bar is no value.
    """
    low = low if least < 0 else max(0.0, low)
    margin = 0.05 * (high - low) or 0.05 * max(abs(high), 1.0)
    return low - margin, high + margin


def _known(run: PooledRuns, column: str) -> Curve | None:
    """The curve of a metric, if any of its means is known."""
    curve = run.curves[column] if column in run.metrics else None
    return None if curve is None or np.isnan(curve.mean).all() else curve


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
            _say_not_known(axes)
            return
        below, above = np.nan_to_num(bars)
        low, high = float(np.nanmin(mean - below)), float(np.nanmax(mean + above))
        axes.set(**{axis: _limits(low, high, float(np.nanmin(mean)))})


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
    return [facet.summarised([run.metrics[column] for run in runs]) for column in REGRETS]


def _points(
    axes: Axes, facet: Facet, runs: Sequence[PooledRuns], **style: Any
) -> tuple[Floats, Floats]:
    """Draws points with bars, and returns where they are."""
    (x, across), (y, along) = _at_end(facet, runs)
    axes.errorbar(x, y, xerr=across, yerr=along, **style)
    return x, y

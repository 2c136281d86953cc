"""Panels, each of which draws one quantity of a facet on axes of matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.figures.facets import Facet
from fairbandit.figures.style import SMALL, group_line, metric_name, policy_name
from fairbandit.results import Curve, PooledRuns, Scene
from fairbandit.results.scenes import SAMPLER

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARK = 0.16  # of a panel's diagonal, between two markers of a curve
_ALONE = 6.0  # a curve so many times higher than any other is cut off


def density(axes: Axes, facet: Facet) -> None:
    """Draws the density of the true (noise-free) rewards of each group, one curve a group.

    Groups whose distribution no run knows get no curve. If it is known of no group, the density is
    that of the rewards in the round logs, and the axis says so.
    """
    _distributions(axes, facet.whole, "density")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("density")


def cdf(axes: Axes, facet: Facet) -> None:
    """Draws the groups' reward CDFs, as `density` does their densities."""
    _distributions(axes, facet.whole, "cdf")
    axes.set_ylim(0, 1.02)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
    axes.set_ylabel("CDF")


def curves(axes: Axes, facet: Facet, column: str) -> None:
    """Draws a metric over the rounds: the mean, and a band of one std or the interval of the mean.

    The axis begins at 0 if no mean is below. A curve far above all others leaves the axes, and a
    note says where it ends.
    """
    runs, whole = facet.scene.runs, facet.whole.runs
    for place, run in enumerate(runs):
        look = facet.looks[run.label]
        curve = _known(run, column)
        if curve is None:
            axes.plot([], [], marker=look.marker, **look.line)
            continue
        marks = (_MARK * (place + 1) / (len(runs) + 1), _MARK)
        axes.plot(curve.rounds, curve.mean, marker=look.marker, markevery=marks, **look.line)
        band = facet.ends(curve.count, curve.mean, curve.std)
        axes.fill_between(curve.rounds, *band, color=look.colour, alpha=0.2, linewidth=0)
    axes.set_xlabel("round")
    axes.set_xlim(0, max(run.rounds for run in whole))
    axes.set_ylabel(metric_name(column) + facet.spread)
    known = [curve for run in whole if (curve := _known(run, column)) is not None]
    if not known:
        say_not_known(axes)
        return
    bottom, top = _limits(known, facet)
    axes.set_ylim(bottom, top)
    ends = {run.label: run.metrics[column]["mean"] for run in runs if column in run.metrics}
    beyond = [
        f"{facet.looks[key].name}:\n{end:,.0f} at T"
        for key, end in ends.items()
        if end is not None and end > top
    ]
    style: dict[str, Any] = {"ha": "right", "va": "top", "fontsize": SMALL}
    axes.text(0.98, 0.99, "\n".join(beyond), transform=axes.transAxes, **style)


def say_not_known(axes: Axes) -> None:
    """Says in place of data that there are none."""
    axes.text(0.5, 0.5, "not known", transform=axes.transAxes, ha="center")
    axes.set_yticks([])


def limits(low: float, high: float, least: float) -> tuple[float, float]:
    """Returns the limits of an axis for values from low to high, with some margin.

    If the least mean is not below 0, neither is what is shown: the end of a bar is no value.
    """
    low = low if least < 0 else max(0.0, low)
    margin = 0.05 * (high - low) or 0.05 * max(abs(high), 1.0)
    return low - margin, high + margin


def _known(run: PooledRuns, column: str) -> Curve | None:
    """The curve of a metric, if any of its means is known."""
    curve = run.curves[column] if column in run.metrics else None
    return None if curve is None or np.isnan(curve.mean).all() else curve


def _limits(curves: Sequence[Curve], facet: Facet) -> tuple[float, float]:
    """The limits of the axis of some curves, which a curve far above all others exceeds."""
    bands = [facet.ends(curve.count, curve.mean, curve.std) for curve in curves]
    edges = np.concatenate([[*b, c.mean] for b, c in zip(bands, curves, strict=True)], axis=None)
    least = min(float(np.nanmin(curve.mean)) for curve in curves)
    bottom, top = limits(float(np.nanmin(edges)), float(np.nanmax(edges)), least)
    if least < 0:
        return bottom, top
    *others, most = sorted(float(np.nanmax(curve.mean)) for curve in curves)
    second = others[-1] if others else most
    return 0.0, 1.35 * second if most > _ALONE * second > 0 else top


def _distributions(axes: Axes, scene: Scene, which: str) -> None:
    """Draws a function of each group's rewards: the true ones, or else the sampled ones."""
    known = any(rewards is not None for rewards in scene.rewards)
    for code, rewards in enumerate(scene.rewards if known else scene.sampled_rewards):
        if rewards is not None:
            axes.plot(rewards.values, getattr(rewards, which), **group_line(code, scene.groups))
    sampled = SAMPLER in {run.policy for run in scene.runs}
    picks = f"the picks of\n{policy_name(SAMPLER)}" if sampled else "all picks"
    axes.set_xlabel("reward" if known else f"sampled reward of {picks}")

"""Panels, each of which draws one quantity of a part of a scene on axes of matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fairbandit.figures.parts import Part
from fairbandit.figures.style import LABEL, SMALL, group_line, policy_name, wrapped
from fairbandit.maths.moments import Floats
from fairbandit.metrics import REGRETS
from fairbandit.results import Curve, Scene
from fairbandit.results.sampled import SAMPLER

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKS = 6  # markers along a curve
_ALONE = 6.0  # a run with so many times the regret of any other is cut off
_NOTE = 1.5  # inches of a line of a note in a panel
_AXIS = 1.8  # inches of a line below an axis


@dataclass(frozen=True)
class Panel:
    """A panel of a figure.

    Attributes:
        draw: draws it.
        split: whether it is drawn of each part of a scene, rather than once of all runs.
        groups: whether a legend tells its lines by group.
    """

    draw: Callable[[Axes, Part], None]
    split: bool = True
    groups: bool = False


def density(axes: Axes, part: Part) -> None:
    """Draws the density of the true (noise-free) rewards of each group, one curve a group.

    Groups whose distribution no run knows get no curve. If it is known of no group, the density is
    that of the rewards in the round logs, and the axis says so.
    """
    _distributions(axes, part.whole, "density")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("density")


def cdf(axes: Axes, part: Part) -> None:
    """Draws the groups' reward CDFs, as `density` does their densities."""
    _distributions(axes, part.whole, "cdf")
    axes.set_ylim(0, 1.02)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
    axes.set_ylabel("CDF")


def curves(axes: Axes, part: Part, column: str, label: str) -> None:
    """Draws a column of the round log over the rounds: the mean, and a band of one std."""
    runs, whole = part.scene.runs, part.whole.runs
    for place, run in enumerate(runs):
        look = part.looks[run.label]
        if column not in run.metrics:
            axes.plot([], [], marker=look.marker, **look.line)
            continue
        curve = run.curves[column]
        gap = max(1, len(curve.rounds) // _MARKS)
        marks = (gap * (place + 1) // (len(runs) + 1), gap)
        axes.plot(curve.rounds, curve.mean, marker=look.marker, markevery=marks, **look.line)
        band = _band(curve, column)
        axes.fill_between(curve.rounds, *band, color=look.colour, alpha=0.2, linewidth=0)
    axes.set_xlabel("round")
    axes.set_xlim(0, max(run.rounds for run in whole))
    spread = any(run.replicas > 1 for run in whole)
    axes.set_ylabel(f"{label}\n(mean ± 1 std)" if spread else label)
    found = [run.curves[column] for run in whole if column in run.metrics]
    known = [curve for curve in found if not np.isnan(curve.mean).all()]
    if not known:
        say_not_known(axes)
        return
    axes.set_ylim(*_limits(known, column))
    _tell_ends_beyond(axes, part, column)


def say_not_known(axes: Axes) -> None:
    """Says in place of data that there are none."""
    axes.text(0.5, 0.5, "not known", transform=axes.transAxes, ha="center")
    axes.set_yticks([])


def margins(low: float, high: float) -> tuple[float, float]:
    """Returns the limits of an axis that shows values from low to high."""
    pad = 0.05 * (high - low) or 0.05 * max(abs(high), 1.0)
    return low - pad, high + pad


def _band(curve: Curve, column: str) -> tuple[Floats, Floats]:
    """The edges of a curve's band of one std; no regret is below 0."""
    low = curve.mean - curve.std
    return (np.maximum(low, 0) if column in REGRETS else low), curve.mean + curve.std


def _limits(curves: Sequence[Curve], column: str) -> tuple[float, float]:
    """The limits of the axis of some curves, which a curve far above all others exceeds."""
    low = min(float(np.nanmin(curve.mean)) for curve in curves)
    edges = np.concatenate([[*_band(curve, column), curve.mean] for curve in curves], axis=None)
    bottom, top = margins(float(np.nanmin(edges)), float(np.nanmax(edges)))
    if low < 0:
        return bottom, top
    *others, most = sorted(float(np.nanmax(curve.mean)) for curve in curves)
    next_most = others[-1] if others else most
    return 0.0, 1.35 * next_most if most > _ALONE * next_most > 0 else top


def _tell_ends_beyond(axes: Axes, part: Part, column: str) -> None:
    """Writes how far the curves go that leave the axes."""
    ends = {
        run.label: run.curves[column].mean[-1] for run in part.scene.runs if column in run.metrics
    }
    _, top = axes.get_ylim()
    beyond = [f"{part.looks[key].name}: {end:,.0f} at T" for key, end in ends.items() if end > top]
    text = "\n".join(wrapped(line, _NOTE, SMALL) for line in beyond)
    axes.text(0.98, 0.99, text, transform=axes.transAxes, ha="right", va="top", fontsize=SMALL)


def _distributions(axes: Axes, scene: Scene, which: str) -> None:
    """Draws a function of each group's rewards: the true ones, or else the sampled ones."""
    known = any(rewards is not None for rewards in scene.rewards)
    for code, rewards in enumerate(scene.rewards if known else scene.sampled_rewards):
        if rewards is not None:
            axes.plot(rewards.values, getattr(rewards, which), **group_line(code, scene.groups))
    sampled = SAMPLER in {run.policy for run in scene.runs}
    picks = f"the picks of {policy_name(SAMPLER)}" if sampled else "all picks"
    text = "reward" if known else f"sampled reward of {picks}"
    axes.set_xlabel(wrapped(text, _AXIS, LABEL))

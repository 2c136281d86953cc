"""Panels, each of which draws one quantity of a scene on axes of matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.errors import FairbanditError
from fairbandit.figures.style import group_line, group_name, looks
from fairbandit.results import PooledRuns, Scene
from fairbandit.results.runs import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Panel = Callable[["Axes", Scene], None]
"""Draws one quantity of a scene."""

_BARS = 0.84  # the share of a group's room that its bars fill
_MARKS = 6  # markers along a curve
_ALONE = 6.0  # a run with so many times the regret of any other is cut off
_MANY = 4  # groups; the legend of more gets room of its own


def density(axes: Axes, scene: Scene) -> None:
    """Draws the density of the true (noise-free) rewards of each group, one curve a group.

    Groups whose distribution no run knows get no curve.
    """
    _distributions(axes, scene, "density")
    axes.set_ylim(bottom=0)


def cdf(axes: Axes, scene: Scene) -> None:
    """Draws the groups' reward CDFs."""
    _distributions(axes, scene, "cdf")
    axes.set_ylim(0, 1.02)
    axes.set_ylabel("CDF")


def curves(axes: Axes, scene: Scene, column: str, label: str) -> None:
    """Draws a column of the round log over the rounds: the mean, and a band of one std."""
    styles, known = looks(run.label for run in scene.runs), {}
    for place, run in enumerate(scene.runs):
        look = styles[run.label]
        if column not in run.metrics:
            axes.plot([], [], **look.line)
            continue
        curve = run.curves[column]
        gap = max(1, len(curve.rounds) // _MARKS)
        marks = (gap * (place + 1) // (len(scene.runs) + 1), gap)
        axes.plot(curve.rounds, curve.mean, marker=look.marker, markevery=marks, **look.line)
        band = curve.mean - curve.std, curve.mean + curve.std
        axes.fill_between(curve.rounds, *band, color=look.colour, alpha=0.2, linewidth=0)
        if not np.isnan(curve.mean[-1]):
            known[run.label] = curve.mean
    axes.set_xlabel("round")
    axes.set_ylabel(label)
    axes.set_xlim(0, max(run.rounds for run in scene.runs))
    if not known:
        axes.text(0.5, 0.5, "not known", transform=axes.transAxes, ha="center")
    elif all(np.nanmin(mean) >= 0 for mean in known.values()):
        axes.set_ylim(0, _top(axes, {label: float(mean[-1]) for label, mean in known.items()}))


def selected_share(axes: Axes, scene: Scene) -> None:
    """Draws selected ÷ received of each group in percent, and the line 1/K of equal shares."""
    _bars(axes, scene, "selection_rate", 100.0)
    axes.axhline(100 / scene.candidates, color="black", linewidth=0.8, linestyle="--", label="1/K")
    axes.set_ylabel("selected candidates [%]")
    axes.set_ylim(bottom=0)
    at = axes.get_yaxis_transform()
    axes.text(1.0, 100 / scene.candidates, " 1/K", transform=at, va="center", fontsize=6.5)


def selected_count(axes: Axes, scene: Scene) -> None:
    """Draws how many candidates of each group are selected, on a log scale."""
    axes.set_yscale("log")
    _bars(axes, scene, "selected", 1.0)
    axes.set_ylabel("selected candidates")


def price(axes: Axes, scene: Scene) -> None:
    """Draws fair against standard pseudo-regret at the last round, one point for each run."""
    styles = looks(run.label for run in scene.runs)
    for run in scene.runs:
        look = styles[run.label]
        style = {"fmt": look.marker, "color": look.colour, "markersize": 5, "linewidth": 0.8}
        _regrets_at_end(axes, [run], label=look.name, **style)
    _regret_axes(axes, scene.runs)


def frontier(axes: Axes, scene: Scene) -> None:
    """Draws fair against standard pseudo-regret at the last round over α of the rank `tradeoff`.

    A line joins the runs in the order of their weights α.

    Raises:
        FairbanditError: fewer than two runs of the rank `tradeoff`.
    """
    found = [
        (float(run.settings["policy.rank.alpha"]), run)
        for run in scene.runs
        if run.settings["policy.rank.name"] == "tradeoff"
    ]
    if len(found) < 2:
        raise FairbanditError(
            "the frontier joins runs of policy/rank=tradeoff at several policy.rank.alpha; "
            f"found {len(found)} of them"
        )
    found.sort(key=lambda pair: pair[0])
    runs = [run for _, run in found]
    style = {"fmt": "o-", "color": "black", "markersize": 3.5, "linewidth": 1.0}
    error = {"ecolor": "0.7", "elinewidth": 0.8}
    points = _regrets_at_end(axes, runs, label=r"trade-off, by $\alpha$", **style, **error)
    for (alpha, _), at in zip(found, points, strict=True):
        axes.annotate(f"{alpha:g}", at, xytext=(4, 3), textcoords="offset points", fontsize=6)
    _regret_axes(axes, runs)


def _regrets_at_end(
    axes: Axes, runs: Sequence[PooledRuns], **style: Any
) -> list[tuple[float, float]]:
    """Draws fair against standard regret at T with bars of one std; returns each run's point."""
    (x, dx), (y, dy) = (
        np.array([[run.metrics[column][of] for run in runs] for of in ("mean", "std")], np.float64)
        for column in ("standard_regret", "fair_regret")
    )
    axes.errorbar(x, y, xerr=dx, yerr=dy, **style)
    return list(zip(x.tolist(), y.tolist(), strict=True))


def _regret_axes(axes: Axes, runs: Sequence[PooledRuns]) -> None:
    """Labels the axes of fair against standard pseudo-regret, and has them begin at 0 or below."""
    horizons = {run.rounds for run in runs}
    at = f"T = {horizons.pop():,}" if len(horizons) == 1 else "T"
    axes.set_xlabel(f"standard pseudo-regret at {at}")
    axes.set_ylabel(f"fair pseudo-regret at {at}")
    axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))


def _distributions(axes: Axes, scene: Scene, which: str) -> None:
    for code, rewards in enumerate(scene.rewards):
        if rewards is not None:
            axes.plot(rewards.values, getattr(rewards, which), **group_line(code, scene.groups))
    axes.set_xlabel("reward")
    axes.set_ylabel(which)
    if len(axes.get_lines()) > _MANY:
        low, high = axes.get_xlim()
        axes.set_xlim(low, high + 0.55 * (high - low))
        axes.legend(loc="upper right", handlelength=2.2)
    elif axes.get_lines():
        axes.legend(loc="best", handlelength=2.2)
    else:
        axes.text(0.5, 0.5, "not known", transform=axes.transAxes, ha="center")


def _top(axes: Axes, ends: Mapping[str, float]) -> float | None:
    """Where to cut a panel that one run would fill alone; writes how far that run goes.

    `ends` are the values of the runs after their last rounds, by label.
    """
    *others, (label, most) = sorted(ends.items(), key=lambda pair: pair[1])
    next_most = others[-1][1] if others else most
    if most <= _ALONE * next_most or next_most <= 0:
        return None
    text = f"{looks(ends)[label].name}: {most:,.0f} at T"
    axes.text(0.98, 0.99, text, transform=axes.transAxes, ha="right", va="top", fontsize=6.5)
    return float(1.35 * next_most)


def _bars(axes: Axes, scene: Scene, quantity: str, scale: float) -> None:
    styles = looks(run.label for run in scene.runs)
    width = _BARS / len(scene.runs)
    groups: Floats = np.arange(len(scene.groups), dtype=np.float64)
    for place, run in enumerate(scene.runs):
        look, (mean, std) = styles[run.label], run.by_group(quantity)
        axes.bar(
            groups + width * (place - (len(scene.runs) - 1) / 2),
            mean * scale,
            width,
            yerr=None if np.isnan(std).all() else std * scale,
            color=look.colour,
            edgecolor="white",
            hatch=look.hatch,
            linewidth=0.3,
            error_kw={"linewidth": 0.7, "ecolor": "black", "capsize": 1.2},
            label=look.name,
        )
    axes.set_xticks(groups, [group_name(name) for name in scene.groups])
    if len(scene.groups) > 2:
        axes.tick_params(axis="x", rotation=30)
        for label in axes.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")

"""Panels: each draws one quantity of a scene on matplotlib's axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from fairbandit.figures.style import Look, group_look, group_name, looks
from fairbandit.results import SavedRun, Scene
from fairbandit.results.runs import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Panel = Callable[["Axes", Scene], None]
"""Draws one quantity of a scene."""

PRICE = ("standard_regret", "fair_regret")
"""The metrics that are drawn against each other: along the axes x and y."""

_BARS = 0.84  # the share of a group's room that its bars fill
_MARKS = 6  # markers along a curve
_ALONE = 6.0  # a run with so many times the regret of any other is cut off
_MANY = 4  # groups; the legend of more gets room of its own


def density(axes: Axes, scene: Scene) -> None:
    """The groups' reward densities."""
    _distributions(axes, scene, "density")
    axes.set_ylim(bottom=0)


def cdf(axes: Axes, scene: Scene) -> None:
    """The groups' reward CDFs."""
    _distributions(axes, scene, "cdf")
    axes.set_ylim(0, 1.02)
    axes.set_ylabel("CDF")


def metric(column: str, label: str) -> Panel:
    """Makes the panel of a metric over the rounds: the mean, and a band of one std.

    Args:
        column: the metric's column in the round log.
        label: what the axis says.
    """

    def panel(axes: Axes, scene: Scene) -> None:
        _curves(axes, scene, column)
        axes.set_ylabel(label)

    return panel


standard_regret = metric("standard_regret", "standard pseudo-regret")
"""Standard pseudo-regret over the rounds."""

fair_regret = metric("fair_regret", "fair pseudo-regret")
"""Fair pseudo-regret over the rounds."""


def selected_share(axes: Axes, scene: Scene) -> None:
    """Selected ÷ received of each group in percent, and the line 1/K of equal shares."""
    _bars(axes, scene, "selection_rate", 100.0)
    axes.axhline(100 / scene.candidates, color="black", linewidth=0.8, linestyle="--", label="1/K")
    axes.set_ylabel("selected candidates [%]")
    axes.set_ylim(bottom=0)
    at = axes.get_yaxis_transform()
    axes.text(1.0, 100 / scene.candidates, " 1/K", transform=at, va="center", fontsize=6.5)


def selected_count(axes: Axes, scene: Scene) -> None:
    """How many candidates of each group are selected, on a log scale."""
    axes.set_yscale("log")
    _bars(axes, scene, "selected", 1.0)
    axes.set_ylabel("selected candidates")


def price(axes: Axes, scene: Scene) -> None:
    """Fair against standard pseudo-regret at the last round, one point a run."""
    styles = looks(run.label for run in scene.runs)
    for run in scene.runs:
        (x, dx), (y, dy) = (spread_of(run, column) for column in PRICE)
        look = styles[run.label]
        axes.errorbar(
            x,
            y,
            xerr=dx,
            yerr=dy,
            fmt=look.marker,
            color=look.colour,
            markersize=5,
            linewidth=0.8,
            label=look.name,
        )
    horizons = {run.summary["rounds"] for run in scene.runs}
    at = f"T = {horizons.pop():,}" if len(horizons) == 1 else "T"
    axes.set_xlabel(f"standard pseudo-regret at {at}")
    axes.set_ylabel(f"fair pseudo-regret at {at}")
    axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))


def spread_of(run: SavedRun, column: str) -> tuple[float, float]:
    """Returns mean and std of a metric after the last round; NaN where it is not known."""
    found = run.metrics[column]
    mean, std = (np.nan if found[part] is None else found[part] for part in ("mean", "std"))
    return mean, std


def _distributions(axes: Axes, scene: Scene, which: str) -> None:
    for code, (name, rewards) in enumerate(zip(scene.groups, scene.rewards, strict=True)):
        if rewards is not None:
            colour, dashes = group_look(code, len(scene.groups))
            values: Floats = getattr(rewards, which)
            axes.plot(
                rewards.values, values, color=colour, linestyle=dashes, label=group_name(name)
            )
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


def _curves(axes: Axes, scene: Scene, column: str) -> None:
    styles = looks(run.label for run in scene.runs)
    runs = [run for run in scene.runs if column in run.metrics]
    for place, run in enumerate(scene.runs):
        look = styles[run.label]
        if column not in run.metrics:
            axes.plot([], [], color=look.colour, linestyle=look.dashes, label=look.name)
            continue
        curve = run.curves[column]
        gap = max(1, len(curve.rounds) // _MARKS)
        axes.plot(
            curve.rounds,
            curve.mean,
            color=look.colour,
            linestyle=look.dashes,
            marker=look.marker,
            markevery=(gap * (place + 1) // (len(scene.runs) + 1), gap),
            label=look.name,
        )
        axes.fill_between(
            curve.rounds,
            curve.mean - curve.std,
            curve.mean + curve.std,
            color=look.colour,
            alpha=0.2,
            linewidth=0,
        )
    axes.set_xlabel("round")
    axes.set_xlim(0, max(run.summary["rounds"] for run in scene.runs))
    ends = {run.label: float(run.curves[column].mean[-1]) for run in runs}
    known = {label: end for label, end in ends.items() if not np.isnan(end)}
    if not known:
        axes.text(0.5, 0.5, "not known", transform=axes.transAxes, ha="center")
    elif all(np.nanmin(run.curves[column].mean) >= 0 for run in runs if run.label in known):
        axes.set_ylim(0, _top(axes, known))


def _top(axes: Axes, ends: Mapping[str, float]) -> float | None:
    """Where to cut a panel that one run would fill alone; writes how far that run goes.

    Args:
        axes: the panel.
        ends: the value of each run after its last round, by label.
    """
    *others, (label, most) = sorted(ends.items(), key=lambda pair: pair[1])
    next_most = others[-1][1] if others else most
    if most <= _ALONE * next_most or next_most <= 0:
        return None
    name = looks(ends)[label].name
    axes.text(
        0.98,
        0.99,
        f"{name}: {most:,.0f} at T",
        transform=axes.transAxes,
        ha="right",
        va="top",
        fontsize=6.5,
    )
    return float(1.35 * next_most)


def _bars(axes: Axes, scene: Scene, quantity: str, scale: float) -> None:
    styles = looks(run.label for run in scene.runs)
    width = _BARS / len(scene.runs)
    groups: Floats = np.arange(len(scene.groups), dtype=np.float64)
    for place, run in enumerate(scene.runs):
        left: Floats = groups + width * (place - (len(scene.runs) - 1) / 2)
        _bars_of(axes, run, styles[run.label], left, width, quantity, scale)
    axes.set_xticks(groups, [group_name(name) for name in scene.groups])
    if len(scene.groups) > 2:
        axes.tick_params(axis="x", rotation=30)
        for label in axes.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")


def _bars_of(
    axes: Axes, run: SavedRun, look: Look, left: Floats, width: float, quantity: str, scale: float
) -> None:
    mean, std = run.by_group(quantity)
    axes.bar(
        left,
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

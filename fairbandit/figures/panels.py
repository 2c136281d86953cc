"""Panels: functions that draw one quantity on matplotlib axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.errors import FairbanditError, visible
from fairbandit.figures.layout import Facet
from fairbandit.figures.style import (
    Look,
    group_line,
    group_name,
    inches,
    room_below,
    setting,
    shortened,
    wrapped,
)
from fairbandit.metrics import REGRETS
from fairbandit.runs.intervals import Floats
from fairbandit.runs.scenes import PooledRuns
from fairbandit.runs.settings import COST
from fairbandit.runs.tables import column_of
from fairbandit.runs.tensorboard import titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CLUSTER = 0.84  # width of the runs' marks at a group; the distance between groups is 1
_BAND_POINTS = 200  # greatest number of points of a band, for small files
_MARK = 0.16  # distance between two markers of a curve, as a share of the panel's diagonal


def rewards(axes: Axes, facet: Facet, which: str) -> None:
    """Draws the density or the cdf of the true (noise-free) rewards of each group, if known."""
    for code, law in enumerate(facet.scene.rewards):
        if law is not None:
            axes.plot(law["value"], law[which], **group_line(code, facet.scene.groups))
    axes.set_xlabel("reward")
    if name := facet.scene.reward:
        room = room_below(axes)
        unit = f"{shortened(visible(name), room)} (standard deviations)"
        axes.set_xlabel(wrapped(unit, room))
    axes.set_ylabel("CDF" if which == "cdf" else which)
    axes.set_ylim(bottom=0)


def curves(axes: Axes, facet: Facet, column: str) -> None:
    """Draws the mean of a metric over the rounds, with a band."""
    for place, run in enumerate(facet.runs, 1):
        look, curve = facet.looks[run.label], run.curves.get((column, None))
        if curve is None or np.isnan(curve.values).all():
            axes.plot([], [], marker=look.marker, **look.style)
            continue
        marks = (_MARK * place / (len(facet.runs) + 1), _MARK)
        # above the axis, and solid lines below others, so that none hides one that coincides
        style = {"marker": look.marker, "markevery": marks, "clip_on": False, **look.style}
        _, mean, _ = curve.moments
        axes.plot(curve.rounds, mean, zorder=2.7 + 0.1 * (look.line != "solid"), **style)
        style = {"facecolor": (look.colour, 0.1), "edgecolor": (look.colour, 0.5), "linewidth": 0.5}
        at = np.unique(np.linspace(0, len(curve.rounds) - 1, _BAND_POINTS, dtype=np.int64))
        low, high = facet.ends(curve.values)
        axes.fill_between(curve.rounds[at], low[at], high[at], **style)
    axes.set_xlabel("round")
    axes.set_ylabel(wrapped(titled(column), 1.5) + facet.spread)
    axes.margins(x=0)
    axes.autoscale()
    axes.set_xlim(left=0)
    drawn = [run.curves[column, None] for run in facet.scene.runs if (column, None) in run.curves]
    if not any((curve.moments[1] < 0).any() for curve in drawn):  # NaN is not below 0
        axes.set_ylim(bottom=0)


def selected_share(axes: Axes, facet: Facet) -> None:
    """Draws the percentage of selected candidates in each group, and a line at m/K."""
    style: dict[str, Any] = {"edgecolor": "white", "linewidth": 0.3}
    style["error_kw"] = {"linewidth": 0.7, "ecolor": "black", "capsize": 1.2}
    for at, look, values in _by_group(facet, "selection_rate"):
        mean, bars = (100 * part for part in values)
        style |= {"color": look.colour, "hatch": look.hatch, "label": look.name}
        axes.bar(at, mean, _CLUSTER / len(facet.runs), yerr=bars, **style)
    right, size = axes.get_yaxis_transform(), setting("xtick.labelsize")
    for m in sorted({run.settings.get("picks", 1) for run in facet.runs}):
        equal = 100 * min(m / facet.scene.candidates, 1)
        # a name that begins with _ is not in the legend
        axes.axhline(equal, color="black", linewidth=0.8, linestyle="--", label=f"_{m}/K")
        axes.text(1.0, equal, f" {m}/K", transform=right, va="center", fontsize=size)
    axes.set_ylabel("selected candidates [%]" + facet.spread)
    axes.autoscale()
    axes.set_ylim(0, min(100, axes.get_ylim()[1]))
    name_groups(axes, facet.scene.groups)


def selected_count(axes: Axes, facet: Facet) -> None:
    """Draws the number of selected candidates of each group, as points on a log scale.

    The scale is linear from 0 to 1.
    """
    axes.set_yscale("symlog", linthresh=1, subs=range(2, 10))
    axes.yaxis.set_major_formatter("{x:,.12g}")
    for at, look, (mean, bars) in _by_group(facet, "selected"):
        style: dict[str, Any] = {"elinewidth": 0.8, "label": look.name}
        axes.errorbar(at, mean, yerr=bars, fmt=look.marker, color=look.colour, **style)
    axes.set_ylabel("selected candidates" + facet.spread)
    axes.autoscale()
    lowest = min(float(np.nanmin(run.by_group("selected")[0])) for run in facet.scene.runs)
    bottom = 10.0 ** math.floor(math.log10(lowest)) if lowest >= 1 else -0.2
    axes.set_ylim(bottom, 10.0 ** math.ceil(math.log10(axes.get_ylim()[1])))
    name_groups(axes, facet.scene.groups)


def _by_group(facet: Facet, quantity: str) -> Iterator[tuple[Floats, Look, tuple[Floats, Floats]]]:
    groups: Floats = np.arange(len(facet.scene.groups), dtype=np.float64)
    for order, run in enumerate(facet.runs):
        values = facet.bars(run, [column_of(quantity, group) for group in run.groups])
        at = groups + _CLUSTER * ((order + 0.5) / len(facet.runs) - 0.5)
        yield at, facet.looks[run.label], values


def name_groups(axes: Axes, groups: Sequence[str]) -> None:
    """Names groups below an axis: in lines if they find room, or else upwards."""
    names, size = [*map(group_name, groups)], setting("xtick.labelsize")
    room = room_below(axes) / len(names)
    lines = [wrapped(name, room, size) for name in names]
    words = (inches(word, size) for name in names for word in name.split())
    upwards = max(words) > room or any(name.count("\n") > 2 for name in lines)
    if upwards:
        lines = [shortened(name, 1.2, size) for name in names]
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_xticks(range(len(names)), lines, rotation=90 if upwards else 0)


def price(axes: Axes, facet: Facet) -> None:
    """Draws fair against standard regret at the last round, one point for each run."""
    for run in facet.runs:
        look = facet.looks[run.label]
        size = 1.5 * setting("lines.markersize")
        style = {"fmt": look.marker, "color": look.colour, "markersize": size, "linewidth": 0.8}
        _points(axes, facet, [run], label=look.name, **style)
    horizons = {run.rounds for run in facet.scene.runs}
    at = f"at T = {horizons.pop():,}" if len(horizons) == 1 else "at T"
    axes.set_xlabel(f"standard regret {at}")
    if name := facet.scene.reward:
        room = room_below(axes)
        axes.set_xlabel(wrapped(f"cost per pick {at} ({shortened(visible(name), room)})", room))
    axes.set_ylabel(f"fair regret {at}{facet.spread}")
    axes.margins(0.08)


def _regrets(facet: Facet) -> tuple[str, str]:
    """Returns the columns of the price: the cost of a pick, in a unit, if rewards have one."""
    standard, fair = REGRETS
    return (COST if facet.scene.reward else standard), fair


def frontier(axes: Axes, facet: Facet) -> None:
    """Draws the price over α of the rank `tradeoff` as a line; other runs are single points."""
    weighted = [run for run in facet.runs if run.settings.get("policy.rank.name") == "tradeoff"]
    if len(weighted) < 2:
        raise FairbanditError(
            "the frontier joins runs of policy/rank=tradeoff at several policy.rank.alpha; "
            f"found {len(weighted)} such runs"
        )
    weighted.sort(key=lambda run: float(run.settings["policy.rank.alpha"]))
    style = {"fmt": "o-", "color": "black", "markersize": 3.5, "linewidth": 1.0}
    bars = {"ecolor": "0.7", "elinewidth": 0.8}
    x, y = _points(axes, facet, weighted, label="trade-off, by α", **style, **bars)
    offset: dict[str, Any] = {"xytext": (4, 3), "textcoords": "offset points"}
    offset["fontsize"] = setting("xtick.labelsize")
    every = [[run.spreads[c]["mean"] for run in facet.runs] for c in _regrets(facet)]
    last, least = np.full(2, np.inf), 0.1 * np.ptp(np.array(every, np.float64), axis=1)
    for run, *place in zip(weighted, x, y, strict=True):
        if (np.abs(np.array(place) - last) >= least).any():  # else it would cover the last label
            axes.annotate(f"{float(run.settings['policy.rank.alpha']):g}", tuple(place), **offset)
            last = np.array(place)
    price(axes, replace(facet, runs=[run for run in facet.runs if run not in weighted]))


def _points(
    axes: Axes, facet: Facet, runs: Sequence[PooledRuns], **style: Any
) -> tuple[Floats, Floats]:
    means, bars = zip(*(facet.bars(run, _regrets(facet)) for run in runs), strict=True)
    (x, y), (across, along) = np.transpose(means), np.transpose(bars, (2, 1, 0))
    axes.errorbar(x, y, xerr=across, yerr=along, **style)
    return x, y

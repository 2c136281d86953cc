"""Arranges the panels of a figure: in facets, and in rows whose texts find room."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.errors import FairbanditError
from fairbandit.figures.style import (
    Look,
    applied,
    looks,
    room_below,
    setting,
    wrapped,
    write_numbers,
)
from fairbandit.policy.build import policy_label
from fairbandit.runs.intervals import Floats, interval, moments
from fairbandit.runs.naming import full_key, joined, union
from fairbandit.runs.scenes import PooledRuns, Scene

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Panel = Callable[[Axes, "Facet"], None]

MOST_RUNS, MOST_FACETS = 24, 9
"""The largest numbers of runs in a panel and of facets in a figure."""

INTERVALS = {
    "quantiles": "mean, 10 to 90 %",
    "std": "mean ± 1 std",
    "mean": "mean, 95 % interval",
}
"""The kinds of bands and bars, with their names on axes."""

# sizes in inches
_PANEL = 1.9  # least width of a panel with its texts
_AMPLE = 4.0  # upper bound on the height of a panel's texts


@dataclass(frozen=True)
class Options:
    """The options of figures.

    Attributes:
        by: a setting, named by its key or the end of it; each of its values gets a facet.
        interval: what bands and bars are, one of `INTERVALS`: the 10 % and 90 % quantiles over the
            replicas, the mean ± one standard deviation, or the 95 % interval of the mean.
        width: the width of a figure in inches; None takes the width of a page.
        metrics: the columns in the figure `metrics`; empty takes all columns beside both regrets.
    """

    by: str | None = None
    interval: str = "quantiles"
    width: float | None = None
    metrics: Sequence[str] = ()


@dataclass(frozen=True)
class Facet:
    """The runs of a panel in the scene of a figure, with the looks of all runs by label.

    The names of the looks leave out the policy if all runs of the figure share it; `shared` is its
    label then. The title is the value of `options.by`.
    """

    runs: Sequence[PooledRuns]
    scene: Scene
    options: Options
    looks: Mapping[str, Look]
    shared: str = ""
    title: str = ""

    @property
    def spread(self) -> str:
        """The meaning of bands and bars, for the label of an axis; empty without replicas."""
        alone = all(run.replicas == 1 for run in self.scene.runs)
        return "" if alone else f"\n({INTERVALS[self.options.interval]})"

    def ends(self, values: Floats) -> tuple[Floats, Floats]:
        """Returns the ends of bands or bars of the values, (B, n); NaN where unknown."""
        count, mean, std = moments(values)
        if self.options.interval == "mean":
            return interval(count, mean, std)
        if self.options.interval == "std":
            return mean - std, mean + std
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # of NaN alone
            low, high = np.nanquantile(values, [0.1, 0.9], axis=0)
        return low, high

    def bars(self, run: PooledRuns, columns: Sequence[str]) -> tuple[Floats, Floats]:
        """Returns means, (n,), and the lengths of the bars below and above them, (2, n)."""
        spreads = [[run.spreads[c][part] for part in ("mean", "low", "high")] for c in columns]
        mean, low, high = np.array(spreads, np.float64).T
        if self.options.interval != "mean":
            low, high = self.ends(np.transpose([run.finals(column) for column in columns]))
        low = np.clip(low, 0, mean)  # no measure is below 0
        return mean, np.stack([mean - low, np.fmax(high, mean) - mean])


def whole(scene: Scene, options: Options, by: str = "") -> Facet:
    """Returns all runs as one facet; the names of the runs leave out the setting `by`."""
    policies = {run.label: policy_label(run.policy) for run in scene.runs}
    alone = len(set(policies.values())) == 1 < len(policies)
    names = {}
    for run in scene.runs:
        named_settings = [entry for entry in run.others if entry.key != by]
        named = not named_settings or not (alone or by == "policy")
        names[run.label] = joined(policies[run.label] * named, named_settings)
    drawn = looks({name: policies[label] for label, name in names.items()})
    by_label = {label: drawn[name] for label, name in names.items()}
    return Facet(scene.runs, scene, options, by_label, policies.popitem()[1] if alone else "")


def split(scene: Scene, options: Options) -> list[Facet]:
    """Splits a scene into a facet for each value of `options.by`; without it, returns one facet."""
    by = full_key([run.settings for run in scene.runs], options.by) if options.by else ""
    shared: dict[str, list[PooledRuns]] = {}
    for run in scene.runs:
        value = joined("", [entry for entry in run.others if entry.key == by])
        shared.setdefault(policy_label(run.policy) if by == "policy" else value, []).append(run)
    most = max(map(len, shared.values()))
    if len(shared) > MOST_FACETS or most > MOST_RUNS:
        names = union(["policy", *(entry.name for entry in run.others)] for run in scene.runs)
        raise FairbanditError(
            f"a figure has at most {MOST_FACETS} facets of {MOST_RUNS} runs, not counting seeds, "
            f"but {scene.name} would have {len(shared)} of up to {most}; choose runs with "
            "policy or where of `fairbandit figures`, or facets with by: the runs differ "
            f"in {', '.join(names)}"
        )
    facet = whole(scene, options, by)
    return [replace(facet, runs=runs, title=title) for title, runs in shared.items()]


def lay_out(once: Sequence[Panel], each: Sequence[Panel], scene: Scene, options: Options) -> Figure:
    """Draws panels of a scene, at most three in a row.

    If the scene is split into facets, each facet has its own row, and the rows share their axes;
    the panels that are drawn `once`, of all runs, follow below. The legend is above all panels.
    """
    from matplotlib.figure import Figure

    facets = split(scene, options) if each else [whole(scene, options)]
    blocks = [[(panel, facet) for panel in each] for facet in facets]
    if len(each) == 1:
        blocks = [[pair for block in blocks for pair in block]]
    if len(facets) == 1:
        blocks = [[(panel, facets[0]) for panel in (*once, *each)]]
    elif once:
        blocks.append([(panel, whole(scene, options)) for panel in once])
    with applied():
        width, height = setting("figure.figsize")
        if len(blocks[0]) == 1:
            width = min(width, 3.375)
        width = options.width or width
        most = max(1, min(3, int(width / _PANEL)))
        figure = Figure((width, height), layout="constrained")
        drawn = _draw_blocks(figure, blocks, most)
        panels = [[axes for axes, _, of_facet in drawn if of_facet is facet] for facet in facets]
        for row, facet in zip(panels, facets, strict=True):
            room = width / _across(len(row), most)
            row[0].set_title(wrapped(facet.title, 0.8 * room), loc="left")
        groups = [axes for axes, panel, _ in drawn if panel in once]
        if len(groups) < len(drawn):
            legend(figure, groups, "lower")
        legend(figure, [row[-1] for row in panels], "upper", facets[0].shared)
        _fit(figure, height)
    return figure


def _draw_blocks(
    figure: Figure, blocks: Sequence[Sequence[tuple[Panel, Facet]]], most: int
) -> list[tuple[Axes, Panel, Facet]]:
    lines = [
        (block[at : at + across], across)
        for block, across in ((block, _across(len(block), most)) for block in blocks)
        for at in range(0, len(block), across)
    ]
    grid = figure.add_gridspec(len(lines), math.lcm(*(across for _, across in lines)))
    first: dict[Panel, Axes] = {}
    drawn = []
    for row, (line, across) in enumerate(lines):
        span = grid.ncols // across
        for column, (panel, facet) in enumerate(line):
            part, like = grid[row, column * span : (column + 1) * span], first.get(panel)
            axes = figure.add_subplot(part, sharex=like, sharey=like)
            first.setdefault(panel, axes)
            panel(axes, facet)
            if not np.isfinite(axes.dataLim.get_points()).all():
                axes.text(0.5, 0.5, "not known", transform=axes.transAxes, ha="center")
            write_numbers(axes, room_below(axes))
            drawn.append((axes, panel, facet))
    return drawn


def _across(panels: int, most: int) -> int:
    return min(most, 2 if panels == 4 else panels)  # four panels make a square


def legend(figure: Figure, panels: Sequence[Axes], edge: str, title: str = "") -> None:
    """Adds the legend of some panels at an edge of the figure, in as few lines as fit its width."""
    parts = ("handlelength", "handletextpad", *("borderpad", "borderaxespad") * 2)
    width, named = figure.get_figwidth(), dict[str, Any]()
    room = width - sum(setting(f"legend.{part}") for part in parts) * setting("font.size") / 72
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        # error bars would hide the small markers of a legend
        lines = (handle[0] if isinstance(handle, tuple) else handle for handle in handles)
        named |= zip((wrapped(label, room) for label in labels), lines, strict=True)
    style: Any = {"loc": f"outside {edge} center", "title": wrapped(title, width) or None}
    for rows in range(1, len(named) + 1):
        columns = math.ceil(len(named) / rows)
        drawn = figure.legend([*named.values()], [*named], ncols=columns, **style)
        if drawn.get_window_extent().width <= figure.bbox.width:
            return
        if columns > 1:
            drawn.remove()


def _fit(figure: Figure, height: float) -> None:
    """Sets the height of the figure so that its panels, without texts, have the given height."""
    grid: Any = figure.axes[0].get_gridspec()
    figure.set_figheight(grid.nrows * (height + _AMPLE))
    figure.draw_without_rendering()
    lacking = height - figure.axes[0].bbox.height / figure.dpi
    figure.set_figheight(figure.get_figheight() + grid.nrows * lacking)

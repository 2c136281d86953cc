"""Arranges the panels of a figure: in facets, and in rows whose texts find room."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fairbandit.building import policy_label
from fairbandit.errors import FairbanditError
from fairbandit.figures.style import WIDTH, Look, applied, looks, wrapped
from fairbandit.maths.moments import Floats, interval
from fairbandit.results import PooledRuns, Scene
from fairbandit.results.naming import full_key, joined, union

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Panel = Callable[[Axes, "Facet"], None]

MOST_RUNS, MOST_FACETS = 24, 9
"""The largest numbers of runs in a panel and of facets in a figure."""

_HEIGHT, _ALONE = 1.6, 2.0  # height of a panel, and of a single panel; all sizes are in inches
_AMPLE = 2.0  # upper bound on the height of a panel's texts
_HANDLE = 0.5  # width of a line sample in a legend, with the gaps around it
_LETTER = 0.052  # average width of a letter in a legend


@dataclass(frozen=True)
class Options:
    """The options of figures.

    Attributes:
        by: a setting, named by its key or the end of it; each of its values gets a facet.
        interval: whether bands and bars are 95 % intervals of the mean, rather than one standard
            deviation to either side of it.
        size: the width and the height of a figure in inches; None takes the default.
        metrics: the columns in the figure `metrics`; empty takes all columns beside both regrets.
    """

    by: str | None = None
    interval: bool = False
    size: tuple[float, float] | None = None
    metrics: Sequence[str] = ()


@dataclass(frozen=True)
class Facet:
    """The runs that a panel shows.

    Attributes:
        runs: the runs of the panel.
        scene: all runs of the figure.
        options: the options of the figure.
        looks: the looks of the runs by label; their names leave out what all runs share.
        shared: the label of the policy that all runs of the figure share; empty if they differ.
        title: the value of `options.by` that the runs share; empty without it.
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
        if all(run.replicas == 1 for run in self.scene.runs):
            return ""
        return "\n(mean, 95 % interval)" if self.options.interval else "\n(mean ± 1 std)"

    def ends(self, count: ArrayLike, mean: ArrayLike, std: ArrayLike) -> tuple[Floats, Floats]:
        """Returns the lower and the upper ends of bands or bars; NaN where unknown."""
        if self.options.interval:
            return interval(count, mean, std)
        return np.subtract(mean, std), np.add(mean, std)

    def summarised(self, ends: Sequence[Mapping[str, Any]]) -> tuple[Floats, Floats]:
        """Returns means, (n,), and the lengths of the bars below and above them, (2, n).

        Each of `ends` has `n`, `mean` and `std`, None where unknown.
        """
        count, mean, std = np.array([[e["n"], e["mean"], e["std"]] for e in ends], np.float64).T
        low, high = self.ends(count, mean, std)
        return mean, np.stack([mean - low, high - mean])


def whole(scene: Scene, options: Options, by: str = "") -> Facet:
    """Returns all runs as one facet; the names of the runs leave out the setting `by`."""
    policies = {run.label: policy_label(run.policy) for run in scene.runs}
    alone = len(set(policies.values())) == 1 < len(policies)
    names = {}
    for run in scene.runs:
        own = joined("", [one for one in run.others if one.key != by])
        unnamed = own and (alone or by == "policy")
        names[run.label] = own if unnamed else ", ".join(filter(None, (policies[run.label], own)))
    drawn = looks({name: policies[label] for label, name in names.items()})
    by_label = {label: drawn[name] for label, name in names.items()}
    return Facet(scene.runs, scene, options, by_label, policies.popitem()[1] if alone else "")


def split(scene: Scene, options: Options) -> list[Facet]:
    """Splits a scene into a facet for each value of `options.by`; without it, returns one facet.

    Raises:
        FairbanditError: the setting is unknown, or there are too many facets or runs in a facet.
    """
    by = full_key([run.settings for run in scene.runs], options.by) if options.by else ""
    shared: dict[str, list[PooledRuns]] = {}
    for run in scene.runs:
        value = joined("", [one for one in run.others if one.key == by])
        shared.setdefault(policy_label(run.policy) if by == "policy" else value, []).append(run)
    most = max(map(len, shared.values()))
    if len(shared) > MOST_FACETS or most > MOST_RUNS:
        names = union(["policy", *(one.name for one in run.others)] for run in scene.runs)
        raise FairbanditError(
            f"a figure has at most {MOST_FACETS} facets of {MOST_RUNS} runs, not counting seeds, "
            f"but {scene.name} would have {len(shared)} of up to {most}; choose runs with "
            "--policies or --where of `fairbandit figures`, or facets with --by: the runs differ "
            f"in {', '.join(names)}"
        )
    facet = whole(scene, options, by)
    return [replace(facet, runs=runs, title=title) for title, runs in shared.items()]


def lay_out(once: Sequence[Panel], each: Sequence[Panel], scene: Scene, options: Options) -> Figure:
    """Draws panels of a scene, at most three in a row.

    If the scene is split into facets, each facet has its own row, and the rows share their axes;
    the panels that are drawn `once`, of all runs, follow below. The legend is above all panels.

    Raises:
        FairbanditError: the scene lacks the runs for a panel, or has too many runs.
    """
    facets = split(scene, options) if each else [whole(scene, options)]
    if len(facets) == 1:
        blocks = [[(panel, facets[0]) for panel in (*once, *each)]]
    elif len(each) == 1:
        blocks = [[(each[0], facet) for facet in facets]]
    else:
        blocks = [[(panel, facet) for panel in each] for facet in facets]
    if once and len(facets) > 1:
        blocks.append([(panel, whole(scene, options)) for panel in once])
    with applied():
        from matplotlib.figure import Figure

        size = (WIDTH, _HEIGHT) if len(blocks[0]) > 1 else (WIDTH / 2, _ALONE)
        figure = Figure(options.size or size, layout="constrained")
        drawn = _draw_blocks(figure, blocks)
        panels = [[axes for axes, shown in drawn if shown is facet] for facet in facets]
        for row, facet in zip(panels, facets, strict=True):
            row[0].set_title(facet.title, loc="left")
        legend(figure, [row[-1] for row in panels], "upper", facets[0].shared)
        if options.size is None:
            _fit(figure, size[1])
        return figure


def _draw_blocks(
    figure: Figure, blocks: Sequence[Sequence[tuple[Panel, Facet]]]
) -> list[tuple[Axes, Facet]]:
    """Draws blocks of panels below each other, with two or three panels in a row."""
    across = [2 if len(block) == 4 else min(3, len(block)) for block in blocks]
    lines = [math.ceil(len(block) / n) for block, n in zip(blocks, across, strict=True)]
    grid = figure.add_gridspec(sum(lines), math.lcm(*across))
    first: dict[Panel, Axes] = {}
    drawn = []
    for at, (block, columns) in enumerate(zip(blocks, across, strict=True)):
        span = grid.ncols // columns
        for place, (panel, facet) in enumerate(block):
            line, column = divmod(place, columns)
            part = grid[sum(lines[:at]) + line, column * span : (column + 1) * span]
            like = first.get(panel)
            axes = figure.add_subplot(part, sharex=like, sharey=like)
            first.setdefault(panel, axes)
            panel(axes, facet)
            if not np.isfinite(axes.dataLim.get_points()).all():
                axes.text(0.5, 0.5, "not known", transform=axes.transAxes, ha="center")
            drawn.append((axes, facet))
    return drawn


def legend(figure: Figure, panels: Sequence[Axes], edge: str, title: str = "") -> None:
    """Adds the legend of some panels at an edge of the figure."""
    width, named = figure.get_figwidth(), dict[str, Any]()
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        # error bars would hide the small markers of a legend
        lines = (handle[0] if isinstance(handle, tuple) else handle for handle in handles)
        named |= zip((wrapped(label, width - _HANDLE) for label in labels), lines, strict=True)
    if not named:
        return
    longest = max(len(line) for label in named for line in label.splitlines())
    columns = max(1, int(width / (_HANDLE + _LETTER * longest)))
    columns = math.ceil(len(named) / math.ceil(len(named) / columns))  # balances the columns
    style: Any = {"loc": f"outside {edge} center", "title": wrapped(title, width) or None}
    figure.legend([*named.values()], [*named], ncols=columns, **style)


def _fit(figure: Figure, height: float) -> None:
    """Sets the height of the figure so that its panels, without texts, have the given height."""
    grid: Any = figure.axes[0].get_gridspec()
    figure.set_figheight(grid.nrows * (height + _AMPLE))
    figure.draw_without_rendering()
    lacking = height - figure.axes[0].bbox.height / figure.dpi
    figure.set_figheight(figure.get_figheight() + grid.nrows * lacking)

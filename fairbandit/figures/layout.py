"""Arranges panels in rows; matplotlib's constrained layout reserves space for their texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.figures.facets import Facet, Options, split
from fairbandit.figures.style import WIDTH, applied, wrapped
from fairbandit.results import Scene

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Panel = Callable[[Axes, Facet], None]

_HEIGHT, _ALONE = 1.6, 2.0  # height of a panel, and of a single panel; all sizes are in inches
_AMPLE = 2.0  # upper bound on the height of a panel's texts
_BESIDE = 1.3  # width of a legend beside a panel
_HANDLE = 0.5  # width of a line sample in a legend, with the gaps around it
_LETTER = 0.052  # average width of a letter in a legend


def lay_out(once: Sequence[Panel], each: Sequence[Panel], scene: Scene, options: Options) -> Figure:
    """Draws panels of a scene, at most three in a row.

    If the scene is split into facets, each facet has its own row, and the rows share their axes;
    the panels that are drawn `once` follow below. The legend of the runs is above all panels if it
    is the same for all facets; otherwise each facet has its legend beside it.

    Args:
        once: panels of all runs.
        each: panels that are drawn for each facet.
        scene: the runs.
        options: the options of the figure.

    Raises:
        FairbanditError: the scene lacks the runs for a panel, or has too many runs.
    """
    facets = split(scene, options) if each else [Facet(scene, scene, options=options)]
    if len(facets) == 1:
        blocks = [[(panel, facets[0]) for panel in (*once, *each)]]
    elif len(each) == 1:
        blocks = [[(each[0], facet) for facet in facets]]
    else:
        blocks = [[(panel, facet) for panel in each] for facet in facets]
    if once and len(facets) > 1:
        blocks.append([(panel, Facet(scene, scene, options=options)) for panel in once])
    with applied():
        from matplotlib.figure import Figure

        size = (WIDTH, _HEIGHT) if len(blocks[0]) > 1 else (WIDTH / 2, _ALONE)
        figure = Figure(options.size or size, layout="constrained")
        drawn = _draw_blocks(figure, blocks)
        panels = [[axes for axes, shown in drawn if shown is facet] for facet in facets]
        _name_runs(figure, panels, facets)
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


def _name_runs(figure: Figure, panels: Sequence[Sequence[Axes]], facets: Sequence[Facet]) -> None:
    """Adds titles, and one legend of all runs, or a legend for each facet if they differ."""
    names = [[look.name for look in facet.looks.values()] for facet in facets]
    if len(facets) == 1:
        legend(figure, panels[0][-1:], "upper", facets[0].heading)
        return
    for row, facet in zip(panels, facets, strict=True):
        row[0].set_title(facet.heading, loc="left")
    if all(shown == names[0] for shown in names):
        legend(figure, panels[0][-1:], "upper")
        return
    if facets[0].options.size is None:
        figure.set_figwidth(figure.get_figwidth() + _BESIDE)
    for row in panels:
        right: Any = max(row, key=lambda axes: axes.get_position().x1)
        handles, labels = _entries([right], _BESIDE)
        right.legend(handles, labels, loc="upper left", bbox_to_anchor=(1, 1))


def legend(figure: Figure, panels: Sequence[Axes], edge: str, title: str = "") -> None:
    """Adds the legend of some panels at an edge of the figure."""
    width = figure.get_figwidth()
    handles, labels = _entries(panels, width - _HANDLE)
    if not labels:
        return
    longest = max(len(line) for label in labels for line in label.splitlines())
    columns = max(1, int(width / (_HANDLE + _LETTER * longest)))
    columns = math.ceil(len(labels) / math.ceil(len(labels) / columns))  # balances the columns
    place: Any = f"outside {edge} center"
    figure.legend(handles, labels, loc=place, ncols=columns, title=wrapped(title, width) or None)


def _entries(panels: Sequence[Axes], inches: float) -> tuple[list[Any], list[str]]:
    named: dict[str, Any] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        named |= dict(zip(labels, handles, strict=True))
    # error bars would hide the small markers of a legend
    lines = [handle[0] if isinstance(handle, tuple) else handle for handle in named.values()]
    return lines, [wrapped(label, inches) for label in named]


def _fit(figure: Figure, height: float) -> None:
    """Sets the height of the figure so that its panels, without texts, have the given height."""
    grid: Any = figure.axes[0].get_gridspec()
    figure.set_figheight(grid.nrows * (height + _AMPLE))
    figure.draw_without_rendering()
    lacking = height - figure.axes[0].bbox.height / figure.dpi
    figure.set_figheight(figure.get_figheight() + grid.nrows * lacking)

"""Lays panels out side by side, once for each facet; matplotlib's constrained layout makes room."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.figures.facets import Facet, Options, split
from fairbandit.figures.style import WIDTH, applied, wrapped
from fairbandit.results import Scene

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, FigureBase, SubFigure
    from matplotlib.gridspec import GridSpec

_ACROSS = 3  # panels in a row of a facet
_HANDLE = 0.5  # inches of a legend's line and of the gaps around it
_LETTER = 0.052  # inches of a letter of a legend, on average
_AMPLE = 2.0  # inches more than a panel's texts take, before their room is known


@dataclass(frozen=True)
class Panel:
    """A panel of a figure, which `draw` draws.

    It is drawn of each facet of a scene, or once of all runs if it is not to `split`. If its lines
    stand for `groups`, a legend names these.
    """

    draw: Callable[[Axes, Facet], None]
    split: bool = True
    groups: bool = False


def lay_out(
    panels: Sequence[Panel],
    scene: Scene,
    options: Options,
    size: tuple[float, float],
    columns: int = 1,
) -> Figure:
    """Draws panels of a scene.

    If the scene is split into facets, panels that are drawn once come first, and then the others
    for each facet, with the same limits. The runs have one legend above all panels if it is the
    same for all facets, and otherwise one above each facet. Groups have a legend below.

    Args:
        panels: the panels.
        scene: the runs.
        options: how the figure is drawn.
        size: the width of the figure, unless it is split, and the height of a panel, in inches.
        columns: the most panels in a row.

    Raises:
        FairbanditError: the scene lacks runs that a panel shows, or has too many.
    """
    whole = Facet(scene, scene, options=options)
    facets = split(scene, options) if any(panel.split for panel in panels) else [whole]
    (width, height), across = size, 1
    blocks = [(list(panels), facets[0])]
    if len(facets) > 1:
        across = max(1, int(WIDTH / width)) if len(panels) == 1 else 1
        width, columns = WIDTH, _ACROSS
        once, repeated = ([one for one in panels if one.split == again] for again in (False, True))
        blocks = [(once, whole)] if once else []
        blocks += [(repeated, facet) for facet in facets]
    if options.size is not None:
        width, _ = options.size
    with applied():
        from matplotlib.figure import Figure

        figure = Figure((width, height), layout="constrained")
        grid = figure.add_gridspec(math.ceil(len(blocks) / across), across)
        parts = [figure.add_subfigure(grid[divmod(at, across)]) for at in range(len(blocks))]
        for part, (shown, facet) in zip(parts, blocks, strict=True):
            _draw(part, shown, facet, columns, width / across)
        _name_runs(figure, parts[-len(facets) :], facets, width)
        if options.size is None:
            _fit(figure, grid, parts, height)
        else:
            figure.set_size_inches(options.size)
        return figure


def _draw(
    part: FigureBase, panels: Sequence[Panel], facet: Facet, columns: int, width: float
) -> None:
    columns = min(columns, len(panels))
    grid = part.add_gridspec(math.ceil(len(panels) / columns), columns)
    by_group: Any = None
    for place, panel in enumerate(panels):
        axes = part.add_subplot(grid[divmod(place, columns)])
        panel.draw(axes, facet)
        by_group = axes if panel.groups else by_group
    if by_group is not None:
        _legend(part, "lower", by_group, "", width)


def _name_runs(
    figure: Figure, parts: Sequence[SubFigure], facets: Sequence[Facet], width: float
) -> None:
    """Adds titles, and a legend of all runs, or one of each facet if they are different."""
    shared = [facet.policy if facet.policy != facet.title else "" for facet in facets]
    names = [[look.name for look in facet.looks.values()] for facet in facets]
    if all(policy == shared[0] for policy in shared) and all(one == names[0] for one in names):
        for part, facet in zip(parts, facets, strict=True):
            if facet.title:
                part.suptitle(facet.title)
        _legend(figure, "upper", parts[-1].axes[-1], shared[0], width)
        return
    for part, facet in zip(parts, facets, strict=True):
        heading = ", ".join(dict.fromkeys(filter(None, (facet.policy, facet.title))))
        _legend(part, "upper", part.axes[-1], heading, part.bbox.width / figure.dpi)


def _legend(part: FigureBase, edge: str, axes: Axes, title: str, width: float) -> None:
    """Adds a legend of what is drawn on some axes, with as many columns as there is room for."""
    handles, labels = axes.get_legend_handles_labels()
    if not labels:
        return
    # error bars would hide the small markers of a legend
    handles = [handle[0] if isinstance(handle, tuple) else handle for handle in handles]
    labels = [wrapped(label, width - _HANDLE) for label in labels]
    longest = max(len(line) for label in labels for line in label.splitlines())
    columns = max(1, int(width / (_HANDLE + _LETTER * longest)))
    columns = math.ceil(len(labels) / math.ceil(len(labels) / columns))  # of about the same length
    place: Any = f"outside {edge} center"
    heading = wrapped(title, width) or None
    part.legend(handles, labels, loc=place, ncols=columns, title=heading)


def _fit(figure: Figure, grid: GridSpec, parts: Sequence[SubFigure], height: float) -> None:
    """Makes the figure so high that its panels have a height in inches, beside all their texts."""
    figure.set_figheight(sum(_lines(part) for part in parts) * (height + _AMPLE))
    figure.draw_without_rendering()
    now = np.array([part.bbox.height / figure.dpi for part in parts])
    lacking = [_lines(part) * (height - part.axes[0].bbox.height / figure.dpi) for part in parts]
    rows = range(0, len(parts), grid.ncols)
    before, after = (
        [max(both[at : at + grid.ncols]) for at in rows] for both in (now, now + lacking)
    )
    grid.set_height_ratios(after)
    figure.set_figheight(figure.get_figheight() + sum(after) - sum(before))


def _lines(part: SubFigure) -> int:
    grid = part.axes[0].get_gridspec()
    assert grid is not None
    return int(grid.nrows)

"""Lays panels out side by side, those of many runs once for each part, with room for legends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairbandit.figures import legends
from fairbandit.figures.panels import Panel
from fairbandit.figures.parts import Part, split
from fairbandit.figures.style import DPI, LABEL, WIDTH, applied, wrapped
from fairbandit.results import Scene

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LINE = 0.13  # inches of a line of a title
_ACROSS = 3  # the most panels of one quantity side by side


@dataclass(frozen=True)
class _Cell:
    """A panel's place in a figure.

    Attributes:
        panel: what is drawn there.
        part: the runs that it shows.
        inner: whether a panel on its left has the same vertical axis and its labels.
    """

    panel: Panel
    part: Part
    inner: bool = False


_Row = list[tuple[_Cell, "Axes"]]


def lay_out(
    shown: Sequence[Panel], scene: Scene, size: tuple[float, float], columns: int = 1
) -> Figure:
    """Draws panels of a scene.

    If the scene has more runs than a panel shows, a panel that can be split becomes one for each
    part of the scene, with the same limits. The runs have one legend above all panels if it is the
    same for all parts, and otherwise one above each panel.

    Args:
        shown: the panels.
        scene: the runs.
        size: the width of the figure, unless it is split, and the height of a row without legends,
            in inches.
        columns: the most panels in a row, unless the figure is split.

    Raises:
        FairbanditError: the scene lacks runs that a panel shows, or has too many.
    """
    from matplotlib.figure import Figure

    whole = Part(scene, scene)
    parts = split(scene) if any(panel.split for panel in shown) else [whole]
    width, height = size
    if len(parts) == 1:
        columns = min(columns, len(shown))
        plan = _rows([_Cell(panel, whole) for panel in shown], columns)
    else:
        width, columns = WIDTH, math.ceil(len(parts) / math.ceil(len(parts) / _ACROSS))
        plan = _rows([_Cell(panel, whole) for panel in shown if not panel.split], columns)
        for panel in filter(lambda panel: panel.split, shown):
            cells = [_Cell(panel, part, at % columns > 0) for at, part in enumerate(parts)]
            plan += _rows(cells, columns)
    with applied():
        figure = Figure(figsize=(width, height * len(plan)), layout="constrained")
        grid = figure.add_gridspec(len(plan), columns)
        rows: list[_Row] = []
        for place, row in enumerate(plan):
            drawn = [(cell, figure.add_subplot(grid[place, at])) for at, cell in enumerate(row)]
            for cell, axes in drawn:
                _draw(cell, axes)
            rows.append(drawn)
        legends.settle(figure)
        room = min(axes.bbox.width for row in rows for _, axes in row) / DPI
        top, around, inside = _add_legends(figure, rows, room)
        inner = [height + more for more in inside]
        grid.set_height_ratios(inner)  # of the panels, without what stands around them
        figure.set_figheight(top + sum(inner) + sum(around))
        by_group = [axes for row in rows for cell, axes in row if cell.panel.groups]
        legends.make_headroom(figure, by_group)
        return figure


def _rows(cells: Sequence[_Cell], columns: int) -> list[Sequence[_Cell]]:
    return [cells[first : first + columns] for first in range(0, len(cells), columns)]


def _draw(cell: _Cell, axes: Axes) -> None:
    cell.panel.draw(axes, cell.part)
    if cell.inner:
        axes.set_ylabel("")
        axes.tick_params(axis="y", which="both", labelleft=False)


def _add_legends(
    figure: Figure, rows: Sequence[_Row], width: float
) -> tuple[float, list[float], list[float]]:
    """Adds all legends and titles, given the width of a panel.

    Returns:
        The inches that they take above all rows, and of each row around and inside its panels.
    """
    last = rows[-1][-1][0].panel
    of_runs = [(cell.part, axes) for row in rows for cell, axes in row if cell.panel is last]
    shown = {id(part): legends.entries(axes) for part, axes in of_runs}
    shared = len({(tuple(shown[id(part)][1]), _heading(part)) for part, _ in of_runs}) == 1

    def above(cell: _Cell, axes: Axes) -> float:
        part = cell.part
        if not cell.panel.split or (shared and not part.title):
            return 0.0
        if shared:
            axes.set_title(wrapped(part.title, width, LABEL))
            return _LINE * len(axes.get_title().splitlines())
        title = ", ".join(filter(None, (_heading(part), part.title)))
        return legends.above(axes, shown[id(part)], title, width)

    around = [max(above(*pair) + legends.below(pair[1]) for pair in row) for row in rows]
    inside = [max(legends.within(a, width) if c.panel.groups else 0.0 for c, a in r) for r in rows]
    part, _ = of_runs[-1]
    top = legends.above_figure(figure, shown[id(part)], _heading(part)) if shared else 0.0
    return top, around, inside


def _heading(part: Part) -> str:
    """The policy that all runs of a part share, unless the part's title names it."""
    return part.policy if part.policy != part.title else ""

"""Figures: panels side by side, with one legend of the policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain, zip_longest
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fairbandit.errors import FairbanditError
from fairbandit.figures import panels
from fairbandit.figures.frontier import frontier
from fairbandit.figures.panels import Panel
from fairbandit.figures.style import WIDTH, applied
from fairbandit.metrics import REGRETS
from fairbandit.results import Scene

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rows = tuple[tuple[Panel, ...], ...]

PANELS_A_ROW = 3
"""The most metrics side by side."""


@dataclass(frozen=True)
class Composition:
    """A figure's plan.

    Attributes:
        help: what it shows.
        rows: its panels, row by row, or a function that gives those for a scene.
        size: width and height in inches; the height of each row where `rows` is a function.
        general: whether it can be drawn of a scene; if not, it is drawn only when asked for.
    """

    help: str
    rows: Rows | Callable[[Scene], Rows]
    size: tuple[float, float]
    general: Callable[[Scene], bool] = lambda scene: True


_REGRETS = (panels.standard_regret, panels.fair_regret)


def _own_metrics(scene: Scene) -> list[str]:
    """The columns of the metrics that runs were asked for beside both regrets."""
    return [column for column in scene.metrics if column not in REGRETS]


def _metric_panels(scene: Scene) -> Rows:
    own = _own_metrics(scene)
    if not own:
        raise FairbanditError(
            f"no run in {scene.name} has a metric beside both regrets; metrics={{COLUMN: NAME}} "
            "asks for one when a run is played"
        )
    made = [panels.metric(column, column.replace("_", " ")) for column in own]
    starts = range(0, len(made), PANELS_A_ROW)
    return tuple(tuple(made[start : start + PANELS_A_ROW]) for start in starts)


FIGURES: Mapping[str, Composition] = MappingProxyType(
    {
        "overview": Composition(
            "reward densities and both pseudo-regrets (the paper's Fig. 1)",
            ((panels.density, *_REGRETS),),
            (WIDTH, 2.2),
        ),
        "selection": Composition(
            "percentage selected by group and both pseudo-regrets (Fig. 2)",
            ((panels.selected_share, *_REGRETS),),
            (WIDTH, 2.3),
        ),
        "distributions": Composition(
            "reward densities and CDFs, and both pseudo-regrets (Fig. 3)",
            ((panels.density, panels.cdf), _REGRETS),
            (WIDTH, 4.4),
        ),
        "counts": Composition(
            "reward densities, counts selected by group, and both pseudo-regrets (Fig. 4)",
            ((panels.density, panels.selected_count), _REGRETS),
            (WIDTH, 4.6),
        ),
        "price": Composition(
            "fair against standard pseudo-regret at T: the price of fairness",
            ((panels.price,),),
            (WIDTH / 2, 3.2),
        ),
        "frontier": Composition(
            "fair against standard pseudo-regret at T over the weight of policy/rank=tradeoff",
            ((frontier,),),
            (WIDTH / 2, 2.8),
            general=lambda scene: False,
        ),
        "metrics": Composition(
            "the metrics that runs were asked for, over the rounds",
            _metric_panels,
            (WIDTH, 2.3),
            general=lambda scene: bool(_own_metrics(scene)),
        ),
    }
)
"""The figures by name."""


def general(scene: Scene) -> list[str]:
    """Returns the names of the figures that are drawn of a scene where none are asked for."""
    return [name for name, plan in FIGURES.items() if plan.general(scene)]


def compose(name: str, scene: Scene) -> Figure:
    """Draws a figure.

    Args:
        name: one of `FIGURES`.
        scene: what it shows.

    Returns:
        matplotlib's figure, which no global state knows of.

    Raises:
        FairbanditError: the scene lacks the runs or the metrics that the figure shows.
    """
    from matplotlib.figure import Figure

    plan = FIGURES[name]
    width, height = plan.size
    if callable(plan.rows):
        rows = plan.rows(scene)
        height *= len(rows)
    else:
        rows = plan.rows
    with applied():
        figure = Figure(figsize=(width, height), layout="constrained")
        grid = figure.subplots(len(rows), len(rows[0]), squeeze=False)
        for axes, panel in zip_longest(grid.flat, chain.from_iterable(rows)):
            if panel is None:  # the last row may be shorter
                axes.set_axis_off()
            else:
                panel(axes, scene)
        _legend(figure, grid[-1][len(rows[-1]) - 1], width)
        return figure


def _legend(figure: Figure, axes: Any, width: float) -> None:
    """Puts the policies of a panel above all panels, as many side by side as fit."""
    handles, labels = axes.get_legend_handles_labels()
    if axes.containers:  # error bars would hide the small markers of a legend
        handles = [handle[0] for handle in handles]
    letters = width / 0.046  # of the legend's size in a line
    columns = int(letters / (max(map(len, labels)) + 8))
    figure.legend(
        handles,
        labels,
        loc="outside upper center",
        ncols=max(1, min(len(labels), columns)),
        handlelength=2.6 if width > WIDTH / 2 else 1.2,
        columnspacing=1.2,
    )

"""Figures: panels side by side, with one legend of the policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fairbandit.figures import panels
from fairbandit.figures.data import Scene
from fairbandit.figures.frontier import frontier
from fairbandit.figures.style import WIDTH, applied

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Panel = Callable[["Axes", Scene], None]


@dataclass(frozen=True)
class Composition:
    """A figure's plan.

    Attributes:
        help: what it shows.
        rows: its panels, row by row.
        size: width and height in inches.
        general: whether it can be drawn of any runs; if not, it is drawn only when asked for.
    """

    help: str
    rows: tuple[tuple[Panel, ...], ...]
    size: tuple[float, float]
    general: bool = True


_REGRETS = (panels.standard_regret, panels.fair_regret)

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
            general=False,
        ),
    }
)
"""The figures by name."""

GENERAL = tuple(name for name, plan in FIGURES.items() if plan.general)
"""The figures that any runs make."""


def compose(name: str, scene: Scene) -> Figure:
    """Draws a figure.

    Args:
        name: one of `FIGURES`.
        scene: what it shows.

    Returns:
        matplotlib's figure, which no global state knows of.
    """
    from matplotlib.figure import Figure

    plan = FIGURES[name]
    with applied():
        figure = Figure(figsize=plan.size, layout="constrained")
        grid = figure.subplots(len(plan.rows), len(plan.rows[0]), squeeze=False)
        for row, drawn in zip(grid, plan.rows, strict=True):
            for axes, panel in zip(row, drawn, strict=True):
                panel(axes, scene)
        _legend(figure, grid[-1][-1], plan.size[0])
        return figure


def _legend(figure: Figure, axes: Any, width: float) -> None:
    """The policies above all panels, as wide as they fit."""
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

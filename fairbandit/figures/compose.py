"""The figures: panels side by side, with one legend of the policies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fairbandit.errors import FairbanditError
from fairbandit.figures import panels
from fairbandit.figures.panels import Panel
from fairbandit.figures.style import WIDTH, applied
from fairbandit.metrics import REGRETS
from fairbandit.results import Scene

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Composition:
    """The plan of a figure.

    Attributes:
        help: what it shows.
        panels: its panels, row by row; none stands for a panel for each metric that runs were
            asked for.
        size: the width of the figure and the height of a row, in inches.
        columns: the most panels in a row.
        general: whether it is also drawn where no figures are asked for.
    """

    help: str
    panels: tuple[Panel, ...]
    size: tuple[float, float]
    columns: int = 3
    general: bool = True


def _curves(column: str, label: str) -> Panel:
    return partial(panels.curves, column=column, label=label)


_REGRETS = tuple(
    _curves(f"{kind}_regret", f"{kind} pseudo-regret") for kind in ("standard", "fair")
)

FIGURES: Mapping[str, Composition] = MappingProxyType(
    {
        "overview": Composition(
            "reward densities and both pseudo-regrets (the paper's Fig. 1)",
            (panels.density, *_REGRETS),
            (WIDTH, 2.2),
        ),
        "selection": Composition(
            "percentage selected by group and both pseudo-regrets (Fig. 2)",
            (panels.selected_share, *_REGRETS),
            (WIDTH, 2.3),
        ),
        "distributions": Composition(
            "reward densities and CDFs, and both pseudo-regrets (Fig. 3)",
            (panels.density, panels.cdf, *_REGRETS),
            (WIDTH, 2.2),
            columns=2,
        ),
        "counts": Composition(
            "reward densities, counts selected by group, and both pseudo-regrets (Fig. 4)",
            (panels.density, panels.selected_count, *_REGRETS),
            (WIDTH, 2.3),
            columns=2,
        ),
        "price": Composition(
            "fair against standard pseudo-regret at T: the price of fairness",
            (panels.price,),
            (WIDTH / 2, 3.2),
        ),
        "frontier": Composition(
            "fair against standard pseudo-regret at T over the weight of policy/rank=tradeoff",
            (panels.frontier,),
            (WIDTH / 2, 2.8),
            general=False,
        ),
        "metrics": Composition(
            "the metrics that runs were asked for, over the rounds", (), (WIDTH, 2.3)
        ),
    }
)
"""The figures by name."""


def general(scene: Scene) -> list[str]:
    """Returns the names of the figures that are drawn of a scene where none are asked for."""
    own = _metric_panels(scene)
    return [name for name, plan in FIGURES.items() if plan.general and (plan.panels or own)]


def compose(name: str, scene: Scene) -> Figure:
    """Draws one of `FIGURES`; no global state of matplotlib knows of the result.

    Raises:
        FairbanditError: the scene lacks the runs or the metrics that the figure shows.
    """
    from matplotlib.figure import Figure

    plan = FIGURES[name]
    shown = plan.panels or _metric_panels(scene)
    if not shown:
        raise FairbanditError(
            f"no run in {scene.name} has a metric beside both regrets; metrics={{COLUMN: NAME}} "
            "asks for one when a run is played"
        )
    width, height = plan.size
    columns = min(plan.columns, len(shown))
    rows = math.ceil(len(shown) / columns)
    with applied():
        figure = Figure(figsize=(width, height * rows), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes, panel in zip_longest(grid.flat, shown):
            if panel is None:  # the last row may be shorter
                axes.set_axis_off()
            else:
                panel(axes, scene)
        _legend(figure, grid.flat[len(shown) - 1], width)
        return figure


def _metric_panels(scene: Scene) -> Sequence[Panel]:
    """A panel for each metric that runs were asked for beside both regrets."""
    own = [column for column in scene.metrics if column not in REGRETS]
    return [_curves(column, column.replace("_", " ")) for column in own]


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

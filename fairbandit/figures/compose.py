"""The figures by name: panels side by side, with a legend of the runs above them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from fairbandit.errors import FairbanditError
from fairbandit.figures import groups, panels
from fairbandit.figures.comparison import compose_comparison
from fairbandit.figures.facets import Options
from fairbandit.figures.layout import Panel, lay_out
from fairbandit.figures.style import WIDTH
from fairbandit.metrics import REGRETS
from fairbandit.results import Scene

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Composition:
    """The plan of a figure.

    Attributes:
        help: what it shows.
        panels: its panels, row by row; none stands for a panel for each metric of
            `Options`, or that runs were asked for, unless `whole` draws the figure.
        size, columns: see `lay_out`.
        general: whether it is also drawn where no figures are asked for.
        truth: whether it shows nothing of an environment without a truth.
        whole: draws the figure, if it has no panels.
    """

    help: str
    panels: tuple[Panel, ...] = ()
    size: tuple[float, float] = (WIDTH, 1.6)
    columns: int = 3
    general: bool = True
    truth: bool = False
    whole: Callable[[Scene, Options], Figure] | None = None


def _curves(column: str) -> Panel:
    return Panel(partial(panels.curves, column=column))


_DENSITY, _CDF = (
    Panel(partial(panels.distribution, which=which), split=False, groups=True)
    for which in ("density", "cdf")
)

_REGRETS = tuple(map(_curves, REGRETS))

FIGURES: Mapping[str, Composition] = MappingProxyType(
    {
        "overview": Composition(
            "reward densities and both regrets (the paper's Fig. 1)", (_DENSITY, *_REGRETS)
        ),
        "selection": Composition(
            "percentage selected by group and both regrets (Fig. 2)",
            (Panel(groups.selected_share), *_REGRETS),
        ),
        "distributions": Composition(
            "reward densities and CDFs, and both regrets (Fig. 3)",
            (_DENSITY, _CDF, *_REGRETS),
            columns=2,
        ),
        "counts": Composition(
            "reward densities, counts selected by group, and both regrets (Fig. 4)",
            (_DENSITY, Panel(groups.selected_count), *_REGRETS),
            columns=2,
        ),
        "price": Composition(
            "fair against standard regret at T: the price of fairness",
            (Panel(panels.price),),
            (WIDTH / 2, 2.0),
            truth=True,
        ),
        "frontier": Composition(
            "price over the weight of policy/rank=tradeoff, beside the other runs",
            (Panel(panels.frontier, split=False),),
            (WIDTH / 2, 2.0),
            general=False,
        ),
        "metrics": Composition("the metrics that runs were asked for, over the rounds"),
        "notions": Composition(
            "a table of the runs by all metrics at T, coloured by rank",
            general=False,
            whole=compose_comparison,
        ),
    }
)
"""The figures by name."""


def general(scene: Scene) -> list[str]:
    """Returns the names of the figures that are drawn of a scene where none are asked for."""
    own = _asked(scene)
    truth = any(run.metrics[regret]["mean"] is not None for run in scene.runs for regret in REGRETS)
    return [
        name
        for name, plan in FIGURES.items()
        if plan.general and (plan.panels or own) and (truth or not plan.truth)
    ]


def compose(name: str, scene: Scene, options: Options | None = None) -> Figure:
    """Draws one of `FIGURES`; no global state of matplotlib knows of the result.

    Raises:
        FairbanditError: the scene lacks the runs or the metrics that the figure shows, or has too
            many runs.
    """
    plan, options = FIGURES[name], options or Options()
    if plan.whole is not None:
        return plan.whole(scene, options)
    width, height = plan.size
    shown = plan.panels
    if not shown:
        shown = tuple(_curves(column) for column in options.metrics or _asked(scene))
        width = width if len(shown) > 1 else WIDTH / 2
    if not shown:
        raise FairbanditError(
            f"no run in {scene.name} has a metric beside both regrets; metrics={{COLUMN: NAME}} "
            "asks for one when a run is played"
        )
    return lay_out(shown, scene, options, (width, height), plan.columns)


def _asked(scene: Scene) -> list[str]:
    return [column for column in scene.metrics if column not in REGRETS]

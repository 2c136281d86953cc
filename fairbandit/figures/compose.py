"""The registry of figures by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from fairbandit.errors import FairbanditError
from fairbandit.figures.comparison import compose_comparison
from fairbandit.figures.facets import Options
from fairbandit.figures.layout import lay_out
from fairbandit.figures.panels import (
    curves,
    frontier,
    price,
    rewards,
    selected_count,
    selected_share,
)
from fairbandit.metrics import REGRETS
from fairbandit.results import Scene

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Composition:
    """A figure: its line in the help, and the function that draws it for a scene."""

    help: str
    draw: Callable[[Scene, Options], Figure]


def _metrics(scene: Scene, options: Options) -> Figure:
    columns = options.metrics or _further(scene)
    if not columns:
        raise FairbanditError(
            f"no run in {scene.name} has a metric beside both regrets; play runs with "
            "metrics={COLUMN: NAME} to record others"
        )
    return lay_out((), [partial(curves, column=column) for column in columns], scene, options)


_DENSITY, _CDF = (partial(rewards, which=which) for which in ("density", "cdf"))
_REGRETS = tuple(partial(curves, column=column) for column in REGRETS)

FIGURES: Mapping[str, Composition] = MappingProxyType(
    {
        "overview": Composition(
            "reward densities and both regrets (the paper's Fig. 1)",
            partial(lay_out, (_DENSITY,), _REGRETS),
        ),
        "selection": Composition(
            "percentage selected by group and both regrets (Fig. 2)",
            partial(lay_out, (), (selected_share, *_REGRETS)),
        ),
        "distributions": Composition(
            "reward densities and CDFs, and both regrets (Fig. 3)",
            partial(lay_out, (_DENSITY, _CDF), _REGRETS),
        ),
        "counts": Composition(
            "reward densities, counts selected by group, and both regrets (Fig. 4)",
            partial(lay_out, (_DENSITY,), (selected_count, *_REGRETS)),
        ),
        "price": Composition(
            "fair against standard regret at T: the price of fairness",
            partial(lay_out, (), (price,)),
        ),
        "frontier": Composition(
            "price over the weight of policy/rank=tradeoff, beside the other runs",
            partial(lay_out, (frontier,), ()),
        ),
        "metrics": Composition("the metrics beside both regrets, over the rounds", _metrics),
        "notions": Composition(
            "a table of the runs by all metrics at T, coloured by rank", compose_comparison
        ),
    }
)
"""The figures by name."""


def general(scene: Scene) -> list[str]:
    """Returns the names of the figures that are drawn for a scene by default."""
    left_out = {"frontier", "notions"}
    if not _further(scene):
        left_out.add("metrics")
    if all(run.metrics[regret]["mean"] is None for run in scene.runs for regret in REGRETS):
        left_out |= {"overview", "distributions", "price"}
    return [name for name in FIGURES if name not in left_out]


def compose(name: str, scene: Scene, options: Options | None = None) -> Figure:
    """Draws one of `FIGURES`, without any change to matplotlib's global state.

    Raises:
        FairbanditError: the scene lacks the runs or the metrics of the figure, or has too many
            runs.
    """
    return FIGURES[name].draw(scene, options or Options())


def _further(scene: Scene) -> list[str]:
    return [column for column in scene.metrics if column not in REGRETS]

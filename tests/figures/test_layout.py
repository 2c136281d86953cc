"""No figure has a legend over its data, a panel too small to read, or text beyond its edge."""

from collections.abc import Sequence
from itertools import combinations, product

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.transforms import BboxBase

from fairbandit.figures.compose import FIGURES, compose, compose_metric
from tests.figures.synthetic import crossed

SIX = [0.01, 0.05, 0.1, 0.5, 1.0, 10.0]
LONG = "a_policy_with_a_name_of_almost_as_many_letters_as_can_be"
GROUPS = (
    *("American Indian or Alaska Native alone", "$50k-$60k", "some_other_race_alone", "white"),
    *("Native Hawaiian and Other Pacific Islander alone", "black", "Asian", "two or more races"),
)
WEIGHTS = [str([number, *range(2, 30)]) for number in range(2)]

SCENES = {
    "one": lambda: crossed(["greedy"]),
    "four, long": lambda: crossed([LONG], noise=[1e-8, 0.1], weights=WEIGHTS),
    "eight groups": lambda: crossed(["uniform", "greedy", "fair_greedy"], GROUPS),
    "eighteen": lambda: crossed(["oful", "greedy", "gmf"], regularization=SIX),
    "thirty-six": lambda: crossed(["oful", "greedy", "gmf"], regularization=SIX, noise=[0, 1]),
    "thirty-six, long": lambda: crossed([LONG], regularization=[n / 7 for n in range(36)]),
}

DRAWN = [
    *(("one", name) for name in ("overview", "counts", "price")),
    *(("four, long", name) for name in ("selection", "price")),
    *(("eight groups", name) for name in ("selection", "distributions", "counts")),
    *(("eighteen", name) for name in ("overview", "fair_regret")),
    *(("thirty-six", name) for name in ("selection", "price")),
    *(("thirty-six, long", name) for name in ("overview",)),
]


@pytest.mark.parametrize(("scene", "name"), DRAWN)
def test_nothing_is_covered_cut_off_or_crushed(scene, name):
    made = SCENES[scene]()
    figure = compose(name, made) if name in FIGURES else compose_metric(name, made)
    figure.draw_without_rendering()
    inside = figure.bbox.padded(1)
    for axes in figure.axes:
        edges = extent(axes)
        assert inside.x0 <= edges.x0 <= edges.x1 <= inside.x1
        assert inside.y0 <= edges.y0 <= edges.y1 <= inside.y1
        assert min(axes.bbox.width, axes.bbox.height) > 0.9 * figure.dpi
        for text in (axes.title, axes.xaxis.label, *axes.texts):
            assert text.get_window_extent().width <= 1.1 * axes.bbox.width
    for one, other in combinations(figure.axes, 2):
        assert not one.bbox.overlaps(other.bbox)
    for legend, axes in product(figure.legends, figure.axes):
        assert not legend.get_window_extent().overlaps(extent(axes))
        assert legend.get_window_extent().width <= figure.bbox.width
    for axes in figure.axes:
        check_legend(axes, figure.axes)


def extent(axes: Axes) -> BboxBase:
    """The room of a panel with all that belongs to it."""
    found = axes.get_tightbbox()
    assert found is not None
    return found


def check_legend(axes: Axes, others: Sequence[Axes]) -> None:
    legend = axes.get_legend()
    if legend is None:
        return
    box = legend.get_window_extent()
    assert box.x0 >= axes.bbox.x0 - 1
    assert box.x1 <= axes.bbox.x1 + 0.1 * axes.bbox.width
    for other in others:
        assert other is axes or not box.overlaps(extent(other))
    for line in axes.get_lines():
        values = line.get_transform().transform(np.asarray(line.get_xydata()))
        assert values[:, 1].max() <= box.y0 + 1

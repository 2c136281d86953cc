"""The comparison: texts and colours of its cells, and room for all of them."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle

from fairbandit.errors import FairbanditError
from fairbandit.figures.comparison import _colour
from fairbandit.figures.compose import compose
from fairbandit.results import SavedRun, Scene
from fairbandit.results.scenes import scenes_of
from tests.figures.synthetic import crossed, judged

POLICIES = ("uniform", "oful", "fair_greedy", "gmf", "optimal")
LONG = "a_policy_with_a_name_of_almost_as_many_letters_as_can_be_{}"


def scene(*runs: SavedRun) -> Scene:
    (found,) = scenes_of(runs)
    return found


def tables(figure: Any) -> list[Any]:
    """The pieces of the table, without the notes below them."""
    axes: list[Any] = figure.axes
    return axes[:-1]


def words(labels: list[Any]) -> list[str]:
    return [label.get_text().replace("-\n", "-").replace("\n", " ") for label in labels]


def notes(figure: Any) -> str:
    return " ".join(text.get_text() for text in figure.axes[-1].texts)


def cells(axes: Any) -> dict[tuple[int, int], tuple[tuple[str, ...], bool, Any]]:
    """By row and column: the texts of each cell, whether the first is bold, and the colour."""
    found = {}
    boxes = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    for place, box in enumerate(boxes):
        row, column = divmod(place, len(axes.get_xticks()))
        (x, y), w, h = box.get_xy(), box.get_width(), box.get_height()
        inside = [
            text
            for text in axes.texts
            if x <= text.get_position()[0] <= x + w and y <= text.get_position()[1] <= y + h
        ]
        texts = tuple(text.get_text() for text in inside)
        found[row, column] = texts, inside[0].get_weight() == "bold", box.get_facecolor()[:3]
    return found


def test_cells_and_labels():
    ends = dict(zip(POLICIES, (9.0, 5.0, 7.0, 1.0, 2.0), strict=True))
    runs = [
        judged(name, {"fair_regret": end, "share": None if name == "oful" else end}, ["share"])
        for name, end in ends.items()
    ]
    figure = compose("notions", scene(*runs))
    (axes,) = tables(figure)
    assert words(axes.get_xticklabels()) == ["fair pseudo-regret ↓", "share ↑"]
    assert words(axes.get_yticklabels()) == [
        *("Uniform random", "OFUL", "Fair-Greedy"),
        *("GMF (fair optimum)", "Optimal (reward optimum)"),
    ]
    grey = to_rgb("#f2f2f2")
    best, middle, worst = (to_rgb(_colour(standing)) for standing in (0, 0.5, 1))
    assert cells(axes) == {
        (0, 0): (("9.0", "±1.6"), False, worst),
        (1, 0): (("5.0", "±1.6"), True, best),
        (2, 0): (("7.0", "±1.6"), False, middle),
        (0, 1): (("9.0", "±1.6"), True, best),
        (1, 1): (("–",), False, grey),
        (2, 1): (("7.0", "±1.6"), False, worst),
        **{
            (row, at): ((f"{end}.0", "±1.6"), False, grey)
            for at in (0, 1)
            for row, end in [(3, 1), (4, 2)]
        },
    }
    assert "these know the truth, and are not ranked" in {text.get_text() for text in axes.texts}
    assert notes(figure) == (
        "best worst within the metric Mean at T = 500 over 4 replicas, ± half of its 95 % "
        "interval; ↓ lower is better; ↑ higher is better; not known here: standard pseudo-regret."
    )


def test_only_policies_that_know_the_truth():
    figure = compose("notions", scene(judged("gmf", {"gap": 1.0}), judged("optimal", {"gap": 2.0})))
    assert len(cells(tables(figure)[0])) == 2
    assert not notes(figure).startswith("best")


def test_settings_of_one_policy_and_of_different_rounds():
    runs = [judged("greedy", {"gap": 1.0 * t}, rounds=t) for t in (100, 200)]
    figure = compose("notions", scene(*runs))
    assert words(tables(figure)[0].get_yticklabels()) == ["rounds=100", "rounds=200"]
    assert [text.get_text() for text in figure.texts] == ["Greedy"]
    assert "Mean at T over 4 replicas" in notes(figure)
    assert "ranks are among runs of equal T" in notes(figure)


def test_nothing_to_compare():
    with pytest.raises(FairbanditError, match="no run in simulation knows the value of a metric"):
        compose("notions", scene(judged("greedy", {"gap": None})))
    with pytest.raises(FairbanditError, match="at most 72 runs"):
        compose("notions", crossed(["greedy"], noise=range(73)))


def test_black_is_easy_to_read_on_every_colour_and_ranks_are_told_apart_in_grey():
    parts = np.array([to_rgb(_colour(standing)) for standing in np.linspace(0, 1, 18)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    luminance = linear @ (0.2126, 0.7152, 0.0722)
    assert luminance.min() > 0.3  # a contrast of 7 with black
    assert np.diff(luminance).min() > 0.01


@pytest.mark.parametrize(("count", "metrics"), [(1, 1), (18, 8), (6, 15)])
def test_every_text_has_room(count, metrics):
    names = [*POLICIES, *(LONG.format(number) for number in range(count))][-count:]
    columns = [f"the_{place}th_metric_of_preference_violations" for place in range(metrics)]
    runs = [
        judged(name, dict.fromkeys(columns, 10.0 ** (row % 9 - 3)))
        for row, name in enumerate(names)
    ]
    figure: Any = compose("notions", scene(*runs))
    figure.draw_without_rendering()
    assert figure.get_figwidth() < 6.76
    assert sum(len(axes.get_xticks()) for axes in tables(figure)) == metrics
    for axes in figure.axes:
        around = axes.get_tightbbox()
        assert figure.bbox.x0 <= around.x0 <= around.x1 <= figure.bbox.x1 + 1
        assert figure.bbox.y0 <= around.y0 <= around.y1 <= figure.bbox.y1
    for upper, lower in pairwise(figure.axes):
        assert upper.bbox.y0 > lower.get_tightbbox().y1 - 1
    for axes in tables(figure):
        boxes = [patch.get_window_extent() for patch in axes.patches]
        for text in axes.texts:
            extent = text.get_window_extent()
            if "know the truth" not in text.get_text():
                assert any(
                    box.x0 < extent.x0
                    and extent.x1 < box.x1
                    and box.y0 - 1 < extent.y0
                    and extent.y1 < box.y1 + 1
                    for box in boxes
                )
        for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
            edges = [label.get_window_extent() for label in labels]
            assert not any(one.overlaps(other) for one, other in pairwise(edges))

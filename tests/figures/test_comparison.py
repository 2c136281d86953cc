"""The comparison: who is ranked, who ties with the best, and what stands in the cells."""

from typing import Any

import numpy as np
import pytest
from matplotlib import colormaps
from matplotlib.colors import to_rgb

from fairbandit.errors import FairbanditError
from fairbandit.figures.draw import compose
from fairbandit.figures.layout import Options
from fairbandit.runs.overview import rank
from fairbandit.runs.scenes import PooledRuns, pool
from tests.figures.synthetic import around, saved, scene_of

NAN = float("nan")
GREY = pytest.approx(to_rgb("#f2f2f2"), abs=0.01)


def runs(**finals: list[float]) -> list[PooledRuns]:
    return [setting for name in finals for setting in pool([saved(name, {"gap": finals[name]})])]


def cells(axes: Any) -> list[list[tuple[str, bool, Any]]]:
    """By row and column: the texts of each cell, whether the first is bold, and the colour."""
    (image,) = axes.get_images()
    found = image.to_rgba(image.get_array())[..., :3]
    texts = {}
    for above, below in zip(axes.texts[::2], axes.texts[1::2], strict=True):
        text = f"{above.get_text()} {below.get_text()}".strip()
        place = above.get_position()
        texts[place] = text, above.get_weight() == "bold"
    height, width, _ = found.shape
    return [
        [(*texts[at, row], tuple(found[row, at])) for at in range(width)] for row in range(height)
    ]


def test_ranks_and_ties():
    # the second is worse in every replica, the third in the mean alone, the fourth is the best
    made = runs(a=around(1.0), b=around(1.1), c=around(1.2, 0, 3, -3, 0), d=around(1.0 + 1e-13))
    ranks, ties = rank(made, "gap")
    assert ranks.tolist() == [0, 0.5, 1, 0]
    assert ties.tolist() == [True, False, True, True]
    ranks, ties = rank(runs(a=[NAN] * 4, b=around(2.0), c=around(1.0)), "gap")
    np.testing.assert_array_equal(ranks, [NAN, 1, 0])
    assert ties.tolist() == [False, False, True]
    apart = [
        pool([saved("greedy", {"gap": around(end)}, rounds=rounds)])[0]
        for rounds, end in [(500, 9.0), (500, 8.0), (100, 3.0), (100, 2.0)]
    ]
    assert rank(apart, "gap")[0].tolist() == [1, 0, 1, 0]
    higher = [pool([saved("x", {"gap": around(v)}, higher=["gap"])])[0] for v in (1.0, 2.0)]
    assert rank(higher, "gap")[0].tolist() == [1, 0]


def test_cells_and_what_is_written_below():
    ends = {"uniform": 9.0, "oful": 5.0, "fair_greedy": 7.0, "gmf": 1.0}
    more = {"same": [2.0] * 4, "no": [NAN] * 4}
    noise = [(0, 3, -3, 0), (3, 0, 0, -3), (-3, 0, 3, 0), (0, 0, 0, 0)]
    made = scene_of(
        *(
            saved(
                name,
                both | more | {"near": around(end / 6, *some)},
                higher=["share"],
                knows_truth=name == "gmf",
            )
            for (name, end), some in zip(ends.items(), noise, strict=True)
            for both in [dict.fromkeys(("fair_regret", "share"), around(end))]
        )
    )
    figure = compose("notions", made)
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == [
        *("fair regret\n↓", "share\n↑", "same\n↓", "near\n↓")
    ]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["Uniform random", "OFUL", "Fair-Greedy", "GMF (fair optimum)*"]
    shades = colormaps["YlGnBu"]([0.56, 0.295, 0.03])
    best, middle, worst = (pytest.approx(shade[:3]) for shade in shades)
    tie = ("2 ±0", True, GREY)  # a column is grey where no difference to the best is clear
    near = [(f"{mean} ±{std}", True, GREY) for mean, std in ((1.5, 2.4), (0.8, 2.4), (1.2, 2.4))]
    assert cells(axes) == [
        [("9.0 ±1.3", False, worst), ("9.0 ±1.3", True, best), tie, near[0]],
        [("5.0 ±1.3", True, best), ("5.0 ±1.3", False, worst), tie, near[1]],
        [("7.0 ±1.3", False, middle), ("7.0 ±1.3", False, middle), tie, near[2]],
        [*[("1.0 ±1.3", False, GREY)] * 2, ("2 ±0", False, GREY), ("0.1667 ±0", False, GREY)],
    ]
    below = figure.get_supxlabel().replace("\n", " ")
    assert below.startswith("Mean ± 1 std at T = 500 over 4 replicas; ↓ lower is better, ↑ higher")
    assert "; a column is grey where no difference to the best is clear; " in below
    assert below.endswith("* knows the truth, and is not ranked; not known here: no.")
    with_interval = compose("notions", made, Options(interval="mean"))
    assert cells(with_interval.axes[0])[0][0][0] == "9.0 ±2.1"


def test_nothing_to_compare():
    with pytest.raises(FairbanditError, match="all metrics of the runs in simulation are unknown"):
        compose("notions", scene_of(saved("greedy", {"gap": [NAN] * 4})))

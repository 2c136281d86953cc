"""The frontier joins the runs of a trade-off in the order of α; other runs are points beside it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairbandit.errors import FairbanditError
from fairbandit.figures.compose import compose
from fairbandit.results import PooledRuns, SavedRun, Scene


def run(rank: dict[str, Any], standard: float, fair: float) -> PooledRuns:
    summary = {
        **{"policy": "mine", "environment": "simulation", "rounds": 500, "replicas": 3, "seed": 0},
        "config": {"policy": {"rank": rank}},
        "standard_pseudo_regret": {"mean": standard, "std": 2.0},
        "fair_pseudo_regret": {"mean": fair, "std": None},
    }
    return PooledRuns((SavedRun(Path(), summary),), label=rank["name"])


def test_points_and_labels() -> None:
    runs = (
        run({"name": "tradeoff", "alpha": 1.0}, 10.0, 90.0),
        run({"name": "identity"}, 1.0, 1.0),
        run({"name": "tradeoff", "alpha": 0.0}, 50.0, 5.0),
        run({"name": "tradeoff", "alpha": 0.25}, 30.0, 20.0),
    )
    (axes,) = compose("frontier", Scene("simulation", runs)).axes
    (line,) = [line for line in axes.get_lines() if line.get_linestyle() == "-"]
    assert np.asarray(line.get_xydata()).tolist() == [[50.0, 5.0], [30.0, 20.0], [10.0, 90.0]]
    assert [text.get_text() for text in axes.texts] == ["0", "0.25", "1"]
    assert axes.get_xlabel() == "standard pseudo-regret at T = 500"
    joined, other = axes.containers
    assert joined.get_label() == "trade-off, by α"
    assert other.get_label() == "mine"
    assert other[0].get_xydata().tolist() == [[1.0, 1.0]]


def test_without_other_runs() -> None:
    runs = [run({"name": "tradeoff", "alpha": alpha}, 1.0, 1.0) for alpha in (0.0, 1.0)]
    (axes,) = compose("frontier", Scene("simulation", tuple(runs))).axes
    assert len(axes.containers) == 1


def test_too_few_runs() -> None:
    scene = Scene("simulation", (run({"name": "tradeoff", "alpha": 0.5}, 1.0, 1.0),))
    with pytest.raises(FairbanditError, match=r"at several policy\.rank\.alpha; found 1"):
        compose("frontier", scene)

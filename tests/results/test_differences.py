"""Runs are chosen by their settings, with short keys and values as labels write them."""

from typing import Any

import pytest

from fairbandit.errors import FairbanditError
from fairbandit.results.differences import chosen


def run(**estimator: Any) -> dict[str, Any]:
    environment = {"noise": 2.0, "flag": True, "theta": "[4.0, 3.0]"}
    return {
        "policy": "mine",
        "environment": "simulation",
        "policy.estimator.name": "ridge",
        "policy.estimator.noise": 0.0,
        **{f"policy.estimator.{key}": value for key, value in estimator.items()},
        "policy.rank.alpha": 0.5,
        **{f"environment.{key}": value for key, value in environment.items()},
    }


RUNS = [run(lam=0.1, refresh=None), run(lam=1.0, refresh=None), run(lam=1.0, refresh=2)]


@pytest.mark.parametrize(
    ("runs", "where", "numbers"),
    [
        (RUNS, {}, [0, 1, 2]),
        (RUNS, {"lam": ["0.10", "7"]}, [0]),
        (RUNS, {"policy.estimator.lam": ["1e0"], "refresh": ["null"]}, [1]),
        (RUNS, {"estimator": ["ridge"], "estimator.refresh": ["2.0"]}, [2]),
        (RUNS, {"flag": ["true"], "theta": ["[4.0, 3.0]"]}, [0, 1, 2]),
        (RUNS, {"lam": [1], "refresh": [None]}, [1]),
        ([run(alpha=1), run(alpha=2)], {"alpha": ["2"]}, [1]),  # the key in which runs differ
    ],
)
def test_runs_that_have_the_values(runs, where, numbers):
    assert chosen(runs, where) == numbers


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"lambda": ["1"]}, "no run has a setting 'lambda'; the settings are policy, environment"),
        ({"noise": ["1"]}, r"'noise' may be policy\.estimator\.noise or environment\.noise"),
        ({"lam": ["2", "3"]}, r"no run has lam=2 or 3; its values are 0\.1, 1\.0$"),
        ({"lam": ["0.1"], "refresh": ["2"]}, "no run has refresh=2; its values are null"),
        ({"flag": ["1"]}, "no run has flag=1; its values are true"),
    ],
)
def test_wrong_conditions(where, message):
    with pytest.raises(FairbanditError, match=message):
        chosen(RUNS, where)

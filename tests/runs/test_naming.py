"""Runs are chosen by their settings, with short keys and values as labels write them."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from fairbandit.errors import FairbanditError
from fairbandit.notices import noted
from fairbandit.runs.naming import chosen, joined, varied


def run(**estimator: Any) -> Any:
    environment = {"noise": 2.0, "flag": True, "theta": "[4.0, 3.0]"}
    return SimpleNamespace(
        settings={
            "policy": "mine",
            "environment": "simulation",
            "policy.estimator.name": "ridge",
            "policy.estimator.noise": 0.0,
            **{f"policy.estimator.{key}": value for key, value in estimator.items()},
            "policy.rank.alpha": 0.5,
            **{f"environment.{key}": value for key, value in environment.items()},
        }
    )


RUNS = [run(lam=0.1, refresh=None), run(lam=1.0, refresh=None), run(lam=1.0, refresh=2)]


@pytest.mark.parametrize(
    ("runs", "where", "numbers"),
    [
        (RUNS, {"lam": ["0.10", "7"]}, [0]),
        (RUNS, {"policy.estimator.lam": ["1e0"], "refresh": ["null"]}, [1]),
        (RUNS, {"estimator": ["ridge"], "estimator.refresh": ["2.0"]}, [2]),
        (RUNS, {"flag": ["true"], "theta": ["[4.0, 3.0]"], "refresh": [None]}, [0, 1]),
        ([run(alpha=1), run(alpha=2)], {"alpha": ["2"]}, [1]),  # the key in which runs differ
    ],
)
def test_runs_that_have_the_values(runs, where, numbers):
    assert chosen(runs, where) == [runs[number] for number in numbers]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"lambda": ["1"]}, "unknown setting 'lambda'; expected one of policy, environment"),
        ({"noise": ["1"]}, r"'noise' may be policy\.estimator\.noise or environment\.noise"),
        ({"lam": ["2", "3"]}, r"no run has lam=2 or 3; its values are 0\.1, 1\.0$"),
        ({"flag": ["1"]}, "no run has flag=1; its values are true"),
    ],
)
def test_wrong_conditions(where, message):
    with pytest.raises(FairbanditError, match=message):
        chosen(RUNS, where)


def settings(policy: str = "mine", picks: int = 1, **estimator: Any) -> dict[str, Any]:
    found = {f"policy.estimator.{key}": value for key, value in estimator.items()}
    return {"policy": policy, "environment": "simulation", "picks": picks, **found}


def labels(*rows: dict[str, Any]) -> list[str]:
    named = zip(rows, varied(rows), strict=True)
    return [joined(row["policy"], own) for row, own in named]


def test_names_hold_what_differs_and_nothing_else():
    alike: dict[str, Any] = {"regularization": 0.1, "refresh": None}
    found = labels(
        settings(name="ridge", noise=0.0, **alike),
        settings(name="kernel", width=2.0, **alike),
        settings(name="kernel", width=3.0, **alike),
        settings("theirs", name="linear", slope=1),
    )
    kernels = [f"mine, estimator=kernel, width={width}" for width in (2.0, 3.0)]
    assert found == ["mine, estimator=ridge", *kernels, "theirs"]
    found = labels(settings(refresh=None), settings(refresh=2.0))
    assert found == ["mine, refresh=null", "mine, refresh=2.0"]
    assert labels(settings(), settings(width=2.0)) == ["mine", "mine, width=2.0"]
    # what belongs to no policy is named for all
    assert labels(settings(), settings("theirs", 2)) == ["mine, picks=1", "theirs, picks=2"]


def test_recorded_metrics_name_runs_only_where_nothing_else_does():
    more = {f"metrics.gap_{at}.{key}": key for at in range(9) for key in ("name", "of", "p")}
    assert labels(settings(), {**settings("theirs"), **more}) == ["mine", "theirs"]
    assert labels(settings(), {**settings(), **more}) == ["mine", "mine, gap_0=name"]


def test_long_values_are_cut_in_the_middle_and_stay_apart():
    lists = [[7, 8], *([*range(9), end, *range(9)] for end in (1, 2))]
    assert labels(*(settings(width=json.dumps(numbers)) for numbers in lists)) == [
        "mine, width=[7, 8]",
        "mine, width=[0, 1, 2, 3, 4, …, 4, 5, 6, 7, 8]",
        "mine, width=[0, 1, 2, 3, 4, …, 4, 5, 6, 7, 8] (3)",
    ]


def test_a_named_policy_shows_the_parts_that_are_not_its_own():
    """A rank for all policies of a sweep makes none of them what its name says."""
    ranks = {"greedy": "smoothed_cdf", "fair_greedy": "empirical_cdf", "mine": "smoothed_cdf"}
    rows = [{"policy": p, "environment": "e", "policy.rank.name": r} for p, r in ranks.items()]
    found = [joined(row["policy"], own) for row, own in zip(rows, varied(rows), strict=True)]
    assert found == ["greedy, rank=smoothed_cdf", "fair_greedy", "mine"]


def test_a_misspelt_value_beside_others_is_noted():
    runs = [run(size="small"), run(size="large")]
    with noted() as notes:
        assert chosen(runs, {"size": ["small", "larg"]}) == runs[:1]
        assert chosen(runs, {"size": ["small", "other"]}) == runs[:1]
    assert notes == ["no run has size=larg (did you mean 'large'?)"]

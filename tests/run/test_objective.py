"""What a run returns to a sweeper: its objective, or why it cannot know it."""

from types import SimpleNamespace
from typing import Any

import pytest

from fairbandit.errors import FairbanditError
from fairbandit.run.objective import Objective, check_known, read_objective
from fairbandit.run.settings import check_metrics

METRICS = check_metrics({"mine": "fair_regret"})

SUMMARY = {
    "fair_pseudo_regret": {"mean": 3.5, "std": 1.0},
    "standard_pseudo_regret": {"mean": None, "std": None},
    "metrics": {"mine": {"mean": 7, "std": None}},
}


@pytest.mark.parametrize(
    ("asked", "values"),
    [
        (None, None),
        ("fair_regret", 3.5),
        (["mine"], 7.0),
        (["mine", "fair_regret"], [7.0, 3.5]),
    ],
)
def test_values(asked, values):
    assert read_objective(asked, METRICS).values(SUMMARY) == values


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (7, "a list of names; got 7; the run records fair_regret, standard_regret, mine"),
        ([], r"a list of names; got \[\]"),
        ([1], r"a list of names; got \[1\]"),
        (["mine", "your"], "no metric 'your'; it records fair_regret, standard_regret, mine"),
    ],
)
def test_what_is_no_objective(asked, message):
    with pytest.raises(FairbanditError, match=message):
        read_objective(asked, METRICS)


def test_an_unknown_value():
    with pytest.raises(FairbanditError, match="the run has no value of standard_regret"):
        Objective(("standard_regret",)).values(SUMMARY)


def test_a_metric_that_needs_a_truth_where_there_is_none():
    environment: Any = SimpleNamespace(truth=None, part_name="logged")
    check_known([], environment, METRICS)
    with pytest.raises(FairbanditError, match=r"mine cannot be known.*'logged' has no truth"):
        check_known(["mine"], environment, METRICS)
    environment.truth = object()
    check_known(["mine"], environment, METRICS)

"""What the public method of a metric refuses."""

import re
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.metrics import FairRegret, Judged, Metric
from tests.metrics.rounds import PROBLEM, ROUNDS, judge, random_rounds


class Given(Metric):
    """Gives what it was made with."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def _values(self, judged: Judged) -> Tensor:
        values: Tensor = self.given
        return values


def nan_at(replica: int, place: int) -> Tensor:
    values = torch.zeros(3, ROUNDS, dtype=torch.float64)
    values[replica, place] = torch.nan
    return values


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (torch.zeros(3, ROUNDS), r"expected (B, N) = (3, 60) values and torch.float64"),
        (None, "metric 'Given' gave NoneType None"),
        (nan_at(2, 9), "gave nan for round 10 of replica 2 of the batch; expected a finite number"),
    ],
)
def test_what_a_metric_may_not_give(given: Any, message: str) -> None:
    with pytest.raises(FairbanditError, match=re.escape(message)):
        judge(Given(given), random_rounds())


def test_a_metric_with_sums_gives_new_sums() -> None:
    metric = type("Summed", (Given,), {"_values": lambda self, judged, sums: self.given})(None)
    metric.init = lambda problem: 0
    with pytest.raises(FairbanditError, match=r"gave NoneType None; expected \(values, sums\)"):
        judge(metric, random_rounds())


def test_without_a_truth_a_metric_is_told_to_declare_that_it_needs_one() -> None:
    rounds, unknown = random_rounds(), replace(PROBLEM, truth=None)
    with pytest.raises(FairbanditError, match="declares needs_truth = True"):
        judge(Given(nan_at(0, 0)), rounds, unknown)
    assert bool(judge(FairRegret(), rounds, unknown).isnan().all())
    assert bool(judge(FairRegret(), rounds).isfinite().all())


def test_an_unknown_reduction() -> None:
    with pytest.raises(FairbanditError, match="reduce = 'median'; expected one of sum, mean"):
        type("Median", (Given,), {"reduce": "median"})

"""What a metric refuses, and its running reduction and both regrets against loops."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.metrics import (
    REDUCTIONS,
    FairRegret,
    Judge,
    Judged,
    Metric,
    Reduce,
    RunningReduction,
)
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


WHOLE: dict[str, Any] = {
    "sum": lambda values: values.cumsum(1),
    "mean": lambda values: values.cumsum(1) / np.arange(1, values.shape[1] + 1),
    "last": lambda values: values,
    "max": lambda values: np.maximum.accumulate(values, 1),
}


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_pieces_give_the_reduction_of_the_whole(reduce: Reduce) -> None:
    values = np.random.default_rng(0).normal(size=(3, 50)) - 2
    pieces = [torch.from_numpy(piece) for piece in np.split(values, [1, 20, 21], 1)]
    running = RunningReduction(reduce, 3)
    found = [running.add(piece) for piece in pieces]
    np.testing.assert_allclose(torch.cat(found, 1).numpy(), WHOLE[reduce](values), rtol=1e-12)


def test_against_loops() -> None:
    """Pools have empty places, whose rewards and ranks do not count."""
    rounds = random_rounds()
    pools = rounds.pools
    played = Judge({}, PROBLEM).judge(1, pools, rounds.selection)
    for at in np.ndindex(*played.actions.shape):
        here, a = pools.groups[at] >= 0, played.actions[at]
        assert played.standard_regret[at] == pools.expected[at][here].max() - pools.expected[at][a]
        assert played.fair_regret[at] == pools.ranks[at][here].max() - pools.ranks[at][a]
    counted = [[int((rows == group).sum()) for group in range(3)] for rows in pools.groups]
    assert played.received.tolist() == counted

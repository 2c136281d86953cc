"""What the public method of a metric refuses, and what a metric is shown."""

import re
from typing import Any

import pytest
import torch
from torch import Tensor

from fairbandit.conformance.metrics import JUDGED, judged, random_rounds
from fairbandit.errors import FairbanditError
from fairbandit.metrics import FairRegret, Judged, Metric


class Given(Metric):
    """Gives what it was made with."""

    part_kind, part_name = "metric", "given"

    def __init__(self, given: Any) -> None:
        self.given = given

    def _values(self, judged: Judged) -> Tensor:
        values: Tensor = self.given
        return values


def nan_at(replica: int, place: int) -> Tensor:
    values = torch.zeros(3, JUDGED, dtype=torch.float64)
    values[replica, place] = torch.nan
    return values


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (torch.zeros(3, JUDGED), r"expected (B, N) = (3, 60) values and torch.float64"),
        (torch.zeros(3, 1, dtype=torch.float64), "gave a tensor of shape (3, 1)"),
        (None, "metric 'given' gave NoneType None"),
        (nan_at(2, 9), "gave nan for round 10 of replica 2 of the batch; expected a finite number"),
    ],
)
def test_what_a_metric_may_not_give(given: Any, message: str) -> None:
    metric = Given(given)
    with pytest.raises(FairbanditError, match=re.escape(message)):
        metric.values(judged(metric, random_rounds()))


def test_without_a_truth_a_metric_is_told_to_declare_that_it_needs_one() -> None:
    metric = Given(nan_at(0, 0))
    shown = judged(metric, random_rounds())
    with pytest.raises(FairbanditError, match="declares needs_truth = True"):
        metric.values(shown, truth=False)
    regret = FairRegret()
    assert bool(regret.values(shown, truth=False).isnan().all())
    assert bool(regret.values(shown).isfinite().all())


def test_probabilities_are_shown_to_metrics_that_ask_for_them() -> None:
    class Curious(Given):
        """Asks."""

        needs_probabilities = True

        def _values(self, judged: Judged) -> Tensor:
            return judged.of_pick(judged.probabilities)

    rounds, curious = random_rounds(), Curious(None)
    torch.testing.assert_close(curious.values(judged(curious, rounds)), rounds[1].propensities)
    with pytest.raises(FairbanditError, match="declare needs_probabilities = True"):
        Curious(None).values(judged(Given(None), rounds))

"""Hyperparameters out of range are refused by name, when a part is made."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from fairbandit import FairbanditError, estimators, metrics, ranks, selectors
from fairbandit.policy.policy import Policy
from fairbandit.splits import Full

NAN, INF = float("nan"), float("inf")

PARTS = Full(), estimators.Zero(), ranks.Identity(), selectors.Argmax()

CASES: list[tuple[Callable[..., Any], str, list[float], str]] = [
    (estimators.Ridge, "regularization", [0.0, -1.0, NAN, INF], "must be above 0 and finite, or"),
    (estimators.OptimisticRidge, "exploration", [-1.0, NAN, INF], "must be at least 0 and finite"),
    (estimators.OptimisticRidge, "delta", [0.0, 1.0, NAN], "must be above 0 and below 1"),
    (estimators.ForgettingRidge, "discount", [0.0, 1.1], "must be above 0 and at most 1"),
    (ranks.SmoothedCdf, "bandwidth", [0.0, -1.0, NAN, INF], "must be above 0 and finite"),
    (ranks.RecentCdf, "size", [0, 1_000_001], "must be at least 1 and at most 1,000,000"),
    (selectors.EpsilonGreedy, "epsilon", [-0.1, 1.1, NAN], "must be at least 0 and at most 1"),
    (selectors.MinimumPull, "shares", [2], "expected a number from 0 to 1 for all groups"),
    (metrics.Skew, "first", [0], "must be at least 1 and finite"),
    (metrics.Welfare, "p", [NAN, INF], "must be finite"),
    (partial(Policy, *PARTS), "refresh", [1.0, -2.0, 1e10, NAN, INF], "refresh: .* above 1"),
]


@pytest.mark.parametrize(("make", "name", "values", "message"), CASES)
def test_out_of_range(
    make: Callable[..., Any], name: str, values: list[float], message: str
) -> None:
    for value in values:
        with pytest.raises(FairbanditError, match=message):
            make(**{name: value})

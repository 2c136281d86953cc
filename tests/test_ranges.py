"""Hyperparameters out of range are refused by name, when a part is made."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from fairbandit import FairbanditError, estimators, ranks, selectors
from fairbandit.policy.policy import Policy
from fairbandit.selectors.merit import MeritFunction
from fairbandit.splits import Full

NAN, INF = float("nan"), float("inf")

PARTS = Full(), estimators.Zero(), ranks.Identity(), selectors.Argmax()

CASES: list[tuple[Callable[..., Any], str, list[float], str]] = [
    (
        estimators.Ridge,
        "regularization",
        [0.0, -1.0, NAN, INF],
        r"regularization \(λ\) must be above 0",
    ),
    (estimators.Ridge, "noise", [-0.1, 1.1, NAN], r"noise \(ρ\) must be from 0 to 1"),
    (estimators.OptimisticRidge, "exploration", [-1.0, NAN], "exploration"),
    (estimators.OptimisticRidge, "delta", [0.0, 1.0], "0 < delta"),
    (
        estimators.ThompsonRidge,
        "scale",
        [-1.0, INF, NAN],
        r"scale \(v\) must be at least 0 and finite",
    ),
    (estimators.GroupRidge, "regularization", [0.0], "regularization"),
    (ranks.SmoothedCdf, "bandwidth", [0.0, -1.0, NAN, INF], "bandwidth must be above 0 and finite"),
    (ranks.ShrunkCdf, "prior", [-1.0, NAN, INF], "prior must be at least 0 and finite"),
    (ranks.RecentCdf, "size", [0, -3, 1_000_001], "size must be from 1 to 1,000,000"),
    (ranks.Tradeoff, "alpha", [-0.1, 1.1, NAN], "alpha must be from 0 to 1"),
    (ranks.IntervalCdf, "delta", [0.0, 1.0, NAN], r"delta .* above 0 and below 1"),
    (selectors.EpsilonGreedy, "epsilon", [-0.1, 1.1, NAN], r"epsilon \(ε\) must be from 0 to 1"),
    (
        selectors.MinimumPull,
        "tolerance",
        [-0.5, INF],
        r"tolerance \(α\) must be at least 0 and finite",
    ),
    (selectors.MinimumPull, "shares", [2], "expected a number from 0 to 1 for all groups"),
    (partial(Policy, *PARTS), "refresh", [1.0, -2.0, 1e10, NAN, INF], "refresh: .* above 1"),
    (MeritFunction, "floor", [0.0, INF], r"floor \(γ\) must be above 0 and finite"),
    (MeritFunction, "exponent", [-1.0], r"exponent \(p\) must be above 0 and finite"),
    (MeritFunction, "rate", [NAN], r"rate \(β\) must be above 0 and finite"),
]


@pytest.mark.parametrize(("make", "name", "values", "message"), CASES)
def test_out_of_range(
    make: Callable[..., Any], name: str, values: list[float], message: str
) -> None:
    for value in values:
        with pytest.raises(FairbanditError, match=message):
            make(**{name: value})

"""Hyperparameters out of range are refused by name, when a part is made."""

from collections.abc import Callable
from typing import Any

import pytest

from fairbandit import FairbanditError, parts

NAN, INF = float("nan"), float("inf")

CASES: list[tuple[Callable[..., Any], str, list[float], str]] = [
    (parts.Ridge, "regularization", [0.0, -1.0, NAN, INF], r"regularization \(λ\) must be above 0"),
    (parts.Ridge, "noise", [-0.1, 1.1, NAN], r"noise \(ρ\) must be from 0 to 1"),
    (parts.OptimisticRidge, "exploration", [-1.0, NAN], "exploration"),
    (parts.OptimisticRidge, "delta", [0.0, 1.0], "0 < delta"),
    (parts.ThompsonRidge, "scale", [-1.0, INF, NAN], r"scale \(v\) must be at least 0 and finite"),
    (parts.GroupRidge, "regularization", [0.0], "regularization"),
    (parts.SmoothedCdf, "bandwidth", [0.0, -1.0, NAN, INF], "bandwidth must be above 0 and finite"),
    (parts.ShrunkCdf, "prior", [-1.0, NAN, INF], "prior must be at least 0 and finite"),
    (parts.RecentCdf, "size", [0, -3, 1_000_001], "size must be from 1 to 1,000,000"),
    (parts.Tradeoff, "alpha", [-0.1, 1.1, NAN], "alpha must be from 0 to 1"),
    (parts.IntervalCdf, "delta", [0.0, 1.0, NAN], r"delta .* above 0 and below 1"),
    (parts.EpsilonGreedy, "epsilon", [-0.1, 1.1, NAN], r"epsilon \(ε\) must be from 0 to 1"),
    (parts.MinimumPull, "tolerance", [-0.5, INF], r"tolerance \(α\) must be at least 0 and finite"),
    (parts.MinimumPull, "shares", [2], "expected a number from 0 to 1 for all groups"),
    (parts.Full, "refresh", [1.0, -2.0, 1e10, NAN], "refresh: expected a factor above 1"),
    (parts.Halves, "refresh", [1.0, INF], "refresh: expected a factor above 1"),
]


@pytest.mark.parametrize(("make", "name", "values", "message"), CASES)
def test_out_of_range(
    make: Callable[..., Any], name: str, values: list[float], message: str
) -> None:
    for value in values:
        with pytest.raises(FairbanditError, match=message):
            make(**{name: value})

"""Exposure regret and preference violations against loops, and for whom they are null."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairbandit import Engine
from fairbandit.environments import Pools
from fairbandit.estimators import Ridge
from fairbandit.metrics import Judged, Merit, PreferenceViolations
from fairbandit.registry import create
from fairbandit.selectors import Selection
from tests import support
from tests.metrics.rounds import PROBLEM, judge, random_rounds

SETTINGS: list[dict[str, Any]] = [
    {},
    {"of": "rank"},
    {"merit": "exponential", "rate": 2.0},
    {"of": "rank", "merit": "power", "exponent": 0.5, "floor": 0.2},
]


def merit(setting: dict[str, Any], x: float) -> float:
    """f as it is written."""
    form, floor = setting.get("merit", "identity"), setting.get("floor", 0.01)
    if form == "exponential":
        return max(math.exp(setting["rate"] * x), floor)
    return max(max(x, 0) ** setting["exponent"] if form == "power" else x, floor)


@pytest.mark.parametrize("setting", SETTINGS)
def test_exposure_regret_against_a_loop(setting: dict[str, Any]) -> None:
    rounds, metric = random_rounds(), create("metric", {"name": "exposure_regret", **setting})
    pools, values = rounds.pools, judge(metric, rounds)
    merited = pools.ranks if setting.get("of") == "rank" else pools.expected
    for b, n in np.ndindex(*values.shape):
        here = [a for a in range(pools.groups.shape[2]) if int(pools.groups[b, n, a]) >= 0]
        merits = [merit(setting, float(merited[b, n, a])) for a in here]
        weights = [float(rounds.selection.inclusion[b, n, a]) for a in here]
        distance = sum(
            abs(m / sum(merits) - w / sum(weights)) for m, w in zip(merits, weights, strict=True)
        )
        assert float(values[b, n]) == pytest.approx(distance, abs=1e-12)


@given(st.integers(0, 2**32 - 1), st.sampled_from(Merit))
def test_preference_violations_against_loops(seed: int, merit: Merit) -> None:
    """Few whole numbers, so that merits and probabilities tie."""
    draws = np.random.default_rng(seed)
    b, n, k = 2, 6, 4
    groups = draws.integers(-1, 2, (b, n, k))
    groups[..., 0] = 0  # no pool is empty
    weights = draws.integers(0, 3, (b, n, k)) * (groups >= 0)
    weights[..., 0] += 1
    expected, ranks = (draws.integers(0, 4, (b, n, k)).astype(float) for _ in range(2))
    pools = Pools(
        torch.zeros(b, n, k, 1),
        *(torch.from_numpy(v) for v in (groups, expected, expected, ranks)),
    )
    actions = torch.zeros(b, n, dtype=torch.int64)
    shares = torch.from_numpy(weights / weights.sum(2, keepdims=True))
    selection = Selection(actions, torch.ones(b, n).double(), shares)
    values = judge(PreferenceViolations(of=merit), Judged(PROBLEM, 1, pools, selection))
    true = expected if merit is Merit.reward else ranks
    for r, t in np.ndindex(b, n):
        wrong = any(
            weights[r, t, i] > weights[r, t, j] and true[r, t, i] <= true[r, t, j]
            for i in range(k)
            for j in range(k)
            if groups[r, t, i] >= 0 and groups[r, t, j] >= 0
        )
        assert float(values[r, t]) == wrong


def test_rounding_is_no_preference() -> None:
    pools = Pools(torch.zeros(1, 1, 2, 1), torch.zeros(1, 1, 2).long(), *[torch.zeros(1, 1, 2)] * 3)
    none = torch.zeros(1, 1)
    for apart, value in ((1e-15, 0.0), (1e-9, 1.0)):
        shares = torch.tensor([[[0.5 + apart, 0.5 - apart]]], dtype=torch.float64)
        judged = Judged(PROBLEM, 1, pools, Selection(none.long(), none.double(), shares))
        assert float(judge(PreferenceViolations(), judged)) == value


class Drawn(Ridge):
    """Stands for posterior sampling: each round has a drawn model of its own."""

    draws_models = True


@pytest.mark.parametrize("drawn", [False, True])
def test_null_where_models_are_drawn(drawn: bool) -> None:
    policy = support.policy("fair_greedy")
    if drawn:
        policy.estimator = Drawn()
    metrics = {"violations": PreferenceViolations(of=Merit.rank)}
    run = Engine(policy, support.environment(), rounds=40, seed=0, replicas=[0], metrics=metrics)
    (played,) = run.play()
    assert bool(played.metrics["violations"].isnan().all()) == drawn
    assert not bool(played.fair_regret.isnan().any())

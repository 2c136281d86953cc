"""Splits, and reward models that change seldom: against loops, in simulation as online."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairbandit import FairbanditError
from fairbandit.policy.build import build_policy
from fairbandit.splits import Full, Halves, Plan, Split
from fairbandit.splits.base import LARGEST_REFRESH, Ints
from tests import literal, support
from tests.agent import worlds

SPLITS: dict[str, type[Split]] = {"halves": Halves, "full": Full}


@pytest.mark.parametrize("name", SPLITS)
@settings(max_examples=25)
@given(
    factor=st.one_of(st.none(), st.floats(1, 4, exclude_min=True), st.just(LARGEST_REFRESH)),
    first=st.integers(1, 3000),
)
def test_the_division(name: str, factor: float | None, first: int) -> None:
    """Asked for round by round and in blocks."""
    last = first + 300
    plan = SPLITS[name]().plan(np.arange(first, last + 1), factor)
    for i, now in enumerate(range(first, last + 1)):
        half = (now - 1) // 2
        past, start = (half, half) if name == "halves" else (now - 1, 0)
        known = literal.refreshed(past, factor) if factor else past
        assert (int(plan.n_train[i]), int(plan.rank_start[i]), int(plan.rank_stop[i])) == (
            known,
            start,
            now - 1,
        )
        assert plan.rounds[i] == now


class Ahead(Split):
    """Learns from the round it decides."""

    def _divide(self, t: Ints) -> Plan:
        return Plan(t, t - 1, t - 1)


def test_a_split_that_reads_the_future() -> None:
    with pytest.raises(FairbanditError, match="split 'Ahead' at round 3: expected 0 ≤ n_train < 3"):
        Ahead().plan(np.array([3]))


@pytest.mark.parametrize(
    ("split", "refresh", "estimator", "rank"),
    [
        ("full", 1.3, "ridge", "empirical_cdf"),
        ("halves", 3.0, "ridge", "empirical_cdf"),
        ("full", 3.0, "optimistic_ridge", "identity"),
        ("halves", 1.3, "optimistic_ridge", "identity"),
        ("halves", 3.0, "ridge", "noisy_rewards_cdf"),
    ],
)
def test_a_lazy_model_in_simulation_and_online(
    split: str, refresh: float, estimator: str, rank: str
) -> None:
    """Where outcomes are summed as they come, and where a rank needs them: equal decisions."""
    world, rounds = worlds.Coarse(), 70
    given = {"split": split, "estimator": estimator, "rank": rank}
    lazy = {**given, "refresh": refresh}
    played = [
        support.actions(build_policy(lazy), world, rounds, 2, seed=4, at_once=at_once)
        for at_once in (256, 1)
    ]
    assert torch.equal(*played)
    assert not torch.equal(support.actions(build_policy(given), world, rounds, 2, 4), played[0])
    pools = worlds.pools_of(world, rounds, 4)
    agent = worlds.agent_for(world, lazy, 4)
    assert worlds.play(agent, pools) == played[0][0, :, None].tolist()

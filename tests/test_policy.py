"""Blocks, and what a policy refuses."""

import gc
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from fairbandit import Engine, FairbanditError
from fairbandit.conformance import Scattered
from fairbandit.parts import (
    Candidates,
    Division,
    Estimator,
    LinearModel,
    Outcomes,
    Problem,
    Rank,
    RewardModel,
    Selection,
    Split,
)
from fairbandit.policy import Policy
from fairbandit.streams import GRID, Streams
from tests import support


def bound(name: str) -> Policy:
    policy = support.policy(name)
    world = support.environment()
    policy.bind(Problem(17, 4, Streams(0, [0]), truth=world.truth))
    return policy


@pytest.mark.parametrize("rounds", [1, 2, 3, 6, 7, 100, 5000])
def test_halves_takes_logarithmically_many_blocks(rounds: int) -> None:
    found = list(support.blocks(bound("fair_greedy"), rounds))
    assert len(found) == math.ceil(math.log2(rounds + 2)) - 1
    assert [low for low, _ in found] == [0, *(high for _, high in found[:-1])]
    assert all(high == min(2 * low + 2, rounds) for low, high in found)


@pytest.mark.parametrize("name", ["uniform", "gmf", "optimal", "fair_greedy_oracle_rewards"])
def test_what_does_not_learn_takes_one_block(name: str) -> None:
    assert list(support.blocks(bound(name), 5000)) == [(0, 5000)]


@pytest.mark.parametrize("name", ["greedy", "oful", "fair_greedy_oracle_cdf"])
def test_full_learners_go_round_by_round(name: str) -> None:
    assert list(support.blocks(bound(name), 50)) == [(t, t + 1) for t in range(50)]


class Clairvoyant(Rank):
    """Claims to read the reward of the round it decides."""

    part_kind, part_name = "rank", "clairvoyant"

    def last_reward_read(self, t: int) -> int:
        return t

    def _index(self, candidates: Candidates) -> Tensor:
        return candidates.scores


def test_a_part_that_reads_the_future() -> None:
    policy = support.policy("greedy")
    policy.rank = Clairvoyant()
    engine = Engine(policy, Scattered(), rounds=5, seed=0, replicas=[0])
    with pytest.raises(
        FairbanditError, match=r"round 1 cannot be decided.*the reward or the pick of round 1"
    ):
        list(engine.play())


class Ahead(Split):
    """Learns from the round it decides."""

    part_kind, part_name = "split", "ahead"

    def _divide(self, t: Tensor) -> Division:
        return Division(t, t - 1, t - 1)


def test_a_split_that_reads_the_future() -> None:
    with pytest.raises(FairbanditError, match="split 'ahead' at round 3: expected 0 ≤ n_train < 3"):
        Ahead().divide(torch.tensor([3]))


class Odd(Rank):
    """Gives whatever it was made with."""

    part_kind, part_name = "rank", "odd"

    def __init__(self, value: float = 0.5, dtype: torch.dtype = torch.float64) -> None:
        self.value, self.dtype = value, dtype

    def _index(self, candidates: Candidates) -> Tensor:
        return torch.full(candidates.groups.shape, self.value, dtype=self.dtype)


@pytest.mark.parametrize(
    ("rank", "message"),
    [
        (Odd(float("nan")), "rank 'odd' gave nan at replica 0, round 2, place 0"),
        (Odd(1.5), "rank 'odd' gave 1.5 .* expected finite values from 0.0 to 1.0"),
        (Odd(dtype=torch.float32), "rank 'odd' gave an index of shape .* and torch.float32"),
    ],
)
def test_an_index_that_breaks_its_contract(rank: Rank, message: str) -> None:
    policy = support.policy("greedy")
    policy.rank = rank
    with pytest.raises(FairbanditError, match=message):
        support.actions(policy, Scattered(), 5)


class Descent(Estimator):
    """Least squares by gradient descent on everything learned, from scratch each time."""

    part_kind, part_name = "estimator", "descent"

    needs = frozenset({"rewards"})

    def _models(self, rounds: list[int], n_train: list[int], outcomes: Outcomes) -> RewardModel:
        b, d = outcomes.contexts.shape[0], outcomes.contexts.shape[2]
        theta = torch.zeros(b, len(n_train), d, dtype=torch.float64, requires_grad=True)
        upto = torch.arange(outcomes.rewards.shape[1]) < torch.tensor(n_train)[:, None]
        for _ in range(20):
            missed = torch.einsum("bnd,bud->bun", outcomes.contexts, theta)
            missed = (missed - outcomes.rewards[:, None]) * upto
            (missed**2).sum().backward()
            assert theta.grad is not None
            theta = (theta - 1e-3 * theta.grad).detach().requires_grad_()
        return LinearModel(theta.detach())


@pytest.mark.parametrize("differentiates", [False, True])
def test_parts_that_differentiate(differentiates: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none does, as of those that come with the package, torch keeps no record."""
    chosen, modes = support.policy("fair_greedy"), set()
    if differentiates:
        chosen.estimator = Descent()
    select = chosen.selector.select

    def watched(*asked: Any) -> Selection:
        modes.add(torch.is_inference_mode_enabled())
        return select(*asked)

    monkeypatch.setattr(chosen.selector, "select", watched)
    assert support.actions(chosen, support.environment(), 80, 2).shape == (2, 80)
    assert modes == {not differentiates}


@pytest.mark.parametrize("name", ["fair_greedy", "oful", "minimum_pull", "rank_interval_chain"])
def test_nothing_waits_for_the_garbage_collector(name: str) -> None:
    """What a block leaves is freed at once: tensors in cycles fill the memory, and it is slow."""
    engine = Engine(
        support.policy(name), support.environment(), rounds=2 * GRID, seed=0, replicas=range(2)
    )
    pieces = engine.play()
    next(pieces)  # what is made once
    gc.collect()
    gc.disable()
    try:
        next(pieces)
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_what_no_later_round_reads_is_forgotten() -> None:
    """Round t of Fair-Greedy ranks by rounds from (t − 1)/2 on, and learns by sums."""
    world, rounds = support.environment(), 2 * GRID
    engine = Engine(support.policy("fair_greedy"), world, rounds=rounds, seed=0, replicas=[0])
    for _ in engine.play():
        kept = engine.state()["history"]
    assert min(int(times.min()) for times in kept["contexts"]["rounds"]) > rounds // 2
    assert kept["picks"]["rows"].shape[1] <= rounds // 2 + 1

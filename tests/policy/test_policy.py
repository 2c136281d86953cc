"""Blocks, and what a policy refuses."""

import gc
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from fairbandit import Engine, FairbanditError, Policy, build
from fairbandit.conformance import Scattered
from fairbandit.history.contexts import BITS
from fairbandit.ranks import Rank, Scored
from fairbandit.streams import CHUNK_ROUNDS
from tests import support


@pytest.mark.parametrize("rounds", [1, 2, 3, 6, 7, 100, 5000])
def test_halves_takes_logarithmically_many_blocks(rounds: int) -> None:
    found = list(support.blocks(support.policy("fair_greedy"), rounds))
    assert len(found) == math.ceil(math.log2(rounds + 2)) - 1
    assert [low for low, _ in found] == [0, *(high for _, high in found[:-1])]
    assert all(high == min(2 * low + 2, rounds) for low, high in found)


@pytest.mark.parametrize("name", [name for name in support.PRESETS if name != "fair_greedy"])
def test_what_does_not_learn_takes_one_block_and_full_learners_go_round_by_round(name: str) -> None:
    learns = name in ("greedy", "oful", "fair_greedy_oracle_cdf")
    expected = [(t, t + 1) for t in range(50)] if learns else [(0, 50)]
    assert list(support.blocks(support.policy(name), 50)) == expected


def greedy(**parts: Any) -> Policy:
    """The policy, with other parts."""
    return support.replaced(support.policy("greedy"), **parts)


class Odd(Rank):
    """Gives whatever it was made with."""

    def __init__(self, value: float = 0.5, dtype: torch.dtype = torch.float64) -> None:
        self.value, self.dtype = value, dtype

    def _index(self, scored: Scored) -> Tensor:
        return torch.full(scored.groups.shape, self.value, dtype=self.dtype)


@pytest.mark.parametrize(
    ("rank", "message"),
    [
        (Odd(float("nan")), "rank 'Odd' gave an index of nan at replica 0, round 1, place 0"),
        (Odd(dtype=torch.float32), "rank 'Odd' gave an index of shape .* and torch.float32"),
    ],
)
def test_an_index_that_breaks_its_contract(rank: Rank, message: str) -> None:
    with pytest.raises(FairbanditError, match=message):
        support.actions(greedy(rank=rank), Scattered(), 5)


def test_a_need_that_does_not_exist() -> None:
    hasty = type("Hasty", (Odd,), {"needs": frozenset({"contexts", "future"})})
    with pytest.raises(
        FairbanditError, match=r"rank 'Hasty' declares needs = .*future.*; expected a set"
    ):
        greedy(rank=hasty())


@pytest.mark.parametrize("name", ["fair_greedy", "oful", "minimum_pull"])
def test_nothing_waits_for_the_garbage_collector(name: str) -> None:
    """What a block leaves is freed at once: tensors in cycles fill the memory, and it is slow."""
    engine = Engine(
        support.policy(name),
        support.environment(),
        rounds=2 * CHUNK_ROUNDS,
        seed=0,
        replicas=range(2),
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
    world, rounds = support.environment(), 2 * CHUNK_ROUNDS
    engine = Engine(support.policy("fair_greedy"), world, rounds=rounds, seed=0, replicas=[0])
    for _ in engine.play():
        pass
    assert engine.history.contexts is not None
    assert int((engine.history.contexts.state()["keys"] % (1 << BITS)).min()) > rounds // 2
    assert engine.history.outcomes.n <= rounds // 2 + 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"policy": "fair_greedy"},
            "expected an instance of Policy, as build .*; got 'fair_greedy'",
        ),
        ({"environment": "table"}, "expected an instance of Environment, .*; got 'table'"),
        ({"replicas": 3}, r"replicas: expected their numbers, such as range\(3\); got 3"),
    ],
)
def test_what_an_engine_does_not_take(changed, message):
    given = {"policy": build("fair_greedy"), "environment": build("simulation"), "replicas": [0]}
    with pytest.raises(FairbanditError, match=message):
        Engine(**{**given, **changed}, rounds=3, seed=0)
    with pytest.raises(FairbanditError, match="the name of a policy or an environment"):
        build(3)  # type: ignore[arg-type]

"""Every policy picks as often as the probabilities say that it reports, over a million draws.

The draws of the estimator and the rank are fixed: each policy has POOLS pools after a history of
its own, and is asked for a pick of each of them with DRAWS of the selector's uniform numbers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from fairbandit import Engine, Policy
from fairbandit.candidates import Candidates
from fairbandit.selectors import Selection
from fairbandit.streams import Streams
from tests import support
from tests.agent.worlds import Coarse

NAMES = [*support.PRESETS, *support.NOTIONS]

POOLS, DRAWS, PIECE, ROUNDS = 50, 20_000, 2_000, 60

LEVEL = 0.001
"""The probability that any of the policies fails by chance: each is tested at LEVEL / policies."""

FEWEST = 10
"""Places of one pool that are expected to be picked less often count as its likeliest place."""


class Repeated:
    """One round of candidates, (B, 1, …), as if it were n rounds in a row, for selectors.

    Args:
        once: the candidates.
        n: how many rounds.
        seed: of the selector's uniform numbers, in which alone the rounds differ.
    """

    def __init__(self, once: Candidates, n: int, seed: int) -> None:
        self._once, self._n, self.rounds = once, n, once.rounds.expand(n)
        self.problem = replace(once.problem, streams=Streams(seed, range(POOLS)))

    def __getattr__(self, name: str) -> Any:
        return self._repeated(getattr(self._once, name))

    def _repeated(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self._repeated, value))
        if isinstance(value, Tensor):
            return value.expand(value.shape[0], self._n, *value.shape[2:])
        return value


def fixed_pools(policy: Policy) -> Candidates:
    """The candidates of the round after a run, one pool a replica; scores tie often."""
    engine = Engine(policy, Coarse(), rounds=ROUNDS, seed=5, replicas=range(POOLS))
    for _ in engine.play():
        pass
    pools = engine.environment.pools(ROUNDS + 1, 1)
    past = engine.known.past.with_pools(pools.contexts, pools.groups)
    known = engine.known._replace(past=past)
    return policy.candidates(known, ROUNDS + 1, pools.contexts, pools.groups)


def picked(policy: Policy, candidates: Candidates) -> tuple[Tensor, Tensor]:
    """How often each place was picked, and the probabilities reported, (POOLS, K) both."""
    counts = torch.zeros_like(candidates.index[:, 0])
    for seed in range(DRAWS // PIECE):
        many: Any = Repeated(candidates, PIECE, seed)
        selection: Selection = policy.selector.select(many, many.index)
        probabilities = selection.probabilities
        reported = probabilities.gather(2, selection.actions[..., None])[..., 0]
        assert torch.equal(selection.propensities, reported)
        assert torch.equal(probabilities, probabilities[:, :1].expand_as(probabilities))
        counts += one_hot(selection.actions, counts.shape[1]).sum(1)
    return counts, probabilities[:, 0]


def chance(counts: Tensor, probabilities: Tensor) -> float:
    """The probability of a χ² statistic so large or larger, if the probabilities are true.

    The pools are tested together: each adds its places less one to the degrees of freedom.
    """
    expected = probabilities * DRAWS
    likeliest = one_hot(expected.argmax(1), expected.shape[1]).bool()
    rare = (expected < FEWEST) & ~likeliest
    seen, expected = (
        likeliest * (values * rare).sum(1, keepdim=True) + values.masked_fill(rare, 0)
        for values in (counts, expected)
    )
    statistic = ((seen - expected) ** 2 / expected)[~rare].sum()
    freedom = (~rare).sum() - POOLS
    return float(torch.special.gammaincc(freedom / 2, statistic / 2)) if freedom else 1.0


@pytest.mark.parametrize("name", NAMES)
def test_picks_are_as_frequent_as_reported(name: str) -> None:
    policy = support.policy(name)
    counts, probabilities = picked(policy, fixed_pools(policy))
    assert not counts[probabilities == 0].any()  # one that is certain is always picked
    assert bool(((probabilities > 0) & (probabilities < 1)).any())  # Coarse has ties
    assert chance(counts, probabilities) >= LEVEL / len(NAMES)


def test_other_probabilities_fail() -> None:
    """Those that are wrong by four parts of a hundred, in one place of each pool."""
    policy = support.policy("uniform")
    counts, probabilities = picked(policy, fixed_pools(policy))
    probabilities[:, 0] *= 1.04
    assert chance(counts, probabilities / probabilities.sum(1, keepdim=True)) < LEVEL / len(NAMES)

"""Shortlists: inclusion probabilities of every selector, by brute force, and draws with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from fairbandit import Agent, Engine, FairbanditError, build
from fairbandit.registry import create
from fairbandit.selectors import Ranked
from fairbandit.selectors.inclusion import capped_shares, filled, systematic
from tests import support

K, G = 6, 3

SELECTORS: dict[str, dict[str, Any]] = {
    "argmax": {},
    "epsilon_greedy": {"epsilon": 0.3},
    "proportional": {"floor": 0.1},
    "chain": {},
    "group_parity": {},
    "minimum_pull": {"shares": 0.3},
}


def pool(seed: int) -> Ranked:
    """What a selector sees of one pool, with many ties and an empty place now and then."""
    draws = np.random.default_rng(seed)
    groups = torch.from_numpy(draws.integers(0, G, (1, 1, K)))
    if draws.random() < 0.3:
        groups[0, 0, draws.integers(K)] = -1
    index = torch.from_numpy(draws.integers(0, 4, (1, 1, K)).astype(float))
    width = torch.from_numpy(draws.integers(0, 2, (1, 1, K)).astype(float))
    counts = torch.from_numpy(draws.integers(0, 5, (1, 1, G)))
    bounds = index - width / 2, index + width / 2
    return support.ranked(index, groups, bounds=bounds, pick_counts=counts)


@settings(max_examples=200)
@given(
    weights=st.lists(st.floats(0.01, 100), min_size=2, max_size=8),
    picks=st.integers(1, 8),
)
def test_capped_proportions(weights: list[float], picks: int) -> None:
    """There is one c with min(1, c·w) of the right sum."""
    w = torch.tensor(weights, dtype=torch.float64)
    found = capped_shares(w.log(), torch.ones_like(w), w.new_tensor([picks]))
    assert float(found.sum()) == pytest.approx(min(picks, len(weights)))
    rates = (found / w)[found < 1]
    assert len(rates) == 0 or float(rates.max() - rates.min()) <= 1e-9 * float(rates.max())
    assert bool((w[found == 1] >= w[found < 1].max() * (1 - 1e-9)).all()) if len(rates) else True


def test_groups_expect_their_part() -> None:
    """Of three picks; small groups are taken whole, and the others share what is left."""
    for seed in range(40):
        asked = pool(seed)
        groups = asked.groups[0, 0].numpy()
        size = np.bincount(groups[groups >= 0], minlength=G).astype(float)
        for chance in ("uniform", "pool"):
            selector: Any = create("selector", {"name": "group_parity", "chance": chance})
            found = selector._inclusion(asked, 3)[0, 0].numpy()
            got = np.array([found[groups == g].sum() for g in range(G)])
            assert got.sum() == pytest.approx(min(3, size.sum()))
            if chance == "pool":
                np.testing.assert_allclose(got, 3 * size / size.sum())
            else:
                open_ = got < size - 1e-9
                assert np.ptp(got[open_]) < 1e-9 if open_.any() else True
                assert (got[~open_] <= got[open_].max(initial=0) + 1e-9).all() or not open_.any()
            for g in range(G):  # the best first
                own = np.flatnonzero(groups == g)
                index = asked.index.value[0, 0]
                pairs = [(a, b) for a in own for b in own if index[a] > index[b]]
                assert all(found[a] >= 1 - 1e-9 or found[b] < 1e-9 for a, b in pairs)


def test_the_largest_draw_fills_the_last_slot() -> None:
    """1 − 2⁻⁵³ + 1 is 2 in double precision."""
    pi = torch.tensor([0.7, 0.9, 0.4], dtype=torch.float64)
    start = torch.tensor(1 - 2.0**-53, dtype=torch.float64)
    assert len(set(systematic(pi, torch.tensor(2), start, torch.arange(3.0)).tolist())) == 2


@pytest.mark.parametrize("selector", SELECTORS)
def test_frequencies_are_the_inclusion_probabilities(selector: str) -> None:
    """χ² of 10⁵ rounds of one pool, with the package's draws.

    With the covariance Σ of one round's picks, n·(f − π)ᵀΣ⁺(f − π) is χ² of as many degrees of
    freedom as Σ has rank. It fails by chance with probability 1e-4 for each selector.
    """
    rounds, asked = 100_000, pool(4)  # of which each selector leaves some places open
    made: Any = create("selector", {"name": selector, **SELECTORS[selector]})
    pi = made._inclusion(asked, 3)[0, 0].numpy()
    shown = (asked.index.value, asked.groups, *asked.bounds, asked.pick_counts)
    index, groups, low, high, counts = (part.expand(1, rounds, -1) for part in shown)
    every = support.ranked(index, groups, bounds=(low, high), pick_counts=counts)
    selection = made.select(every, 3)
    actions, propensities = selection.actions[0].numpy(), selection.propensities[0].numpy()
    drawn = np.zeros((rounds, K))
    np.put_along_axis(drawn, actions, 1, 1)
    np.testing.assert_array_equal(propensities, pi[actions])
    off, covariance = drawn.mean(0) - pi, np.atleast_2d(np.cov(drawn.T))
    degrees = np.linalg.matrix_rank(covariance, hermitian=True)
    statistic = rounds * off @ np.linalg.pinv(covariance, hermitian=True) @ off
    assert degrees > 0
    assert statistic <= chi2.ppf(1 - 1e-4, degrees)


def test_small_pools_are_taken_whole() -> None:
    agent = Agent.from_config("fair_greedy", features=2, seed=0)
    decision = agent.act([[1.0, 0.0], [0.0, 1.0]], ["a", "b"], picks=5)
    assert sorted(decision.picks) == [0, 1]
    assert decision.propensities == (1.0, 1.0)
    with pytest.raises(FairbanditError, match="has 2 picks: name the candidate"):
        agent.update(1.0)
    with pytest.raises(FairbanditError, match=r"candidate 7 of ticket 1 .* waiting candidates: "):
        agent.update(1.0, candidate=7)
    agent.update(1.0, candidate=1)
    assert agent.pending == (1,)
    agent.update({0: 2.0}, 1)
    assert not agent.pending


def test_the_ranks_of_the_best_three_of_twelve() -> None:
    """With independent candidates they sum to 33/13 on average; five standard errors."""
    world = support.environment("simulation", groups=12, theta=[*[1.0, 2.0] * 12, 1.0])
    sums = torch.cat([p.ranks.sum(2) for p in _played(build({"name": "gmf"}), world, 2000)], 1)
    error = float(sums.std()) / np.sqrt(sums.numel())
    assert float(sums.mean()) == pytest.approx(12 / 13 + 11 / 13 + 10 / 13, abs=5 * error)


def _played(chosen: Any, world: Any, rounds: int) -> Any:
    return Engine(chosen, world, rounds=rounds, seed=0, replicas=range(5), picks=3).play()


def test_an_amount_is_given_to_the_best_first() -> None:
    index = torch.tensor([[[4.0, 3.0, 3.0, 1.0]]]).double()
    half = torch.tensor([[[0.5, 1.0, 0.5, 1.0]]]).double()
    found = filled(index, index, half, torch.tensor([[[1.25]]]).double())
    assert found[0, 0].tolist() == pytest.approx([0.5, 0.5, 0.25, 0])

"""Shortlists: inclusion probabilities of every selector, by brute force, and draws with them."""

from __future__ import annotations

import math
from itertools import cycle, permutations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from fairbandit import Agent, Engine, FairbanditError, build
from fairbandit.conformance import Scattered
from fairbandit.registry import create
from fairbandit.selectors import Ranked
from fairbandit.selectors.inclusion import capped_shares, filled, systematic
from tests import support
from tests.literal import systematic as literal_systematic

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


def best_of(members: list[int], index: Any, amount: int, order: Any) -> list[int]:
    return sorted(members, key=lambda a: (-index[a], order[a]))[:amount]


def argmax(pool: Any, index: Any, members: list[int], m: int, order: Any) -> Any:
    return np.isin(np.arange(K), best_of(members, index, m, order)).astype(float)


def minimum_pull(pool: Any, index: Any, members: list[int], m: int, order: Any) -> Any:
    """With groups, too, in a random order where they lack equally much."""
    counts, groups = pool.pick_counts[0, 0].numpy(), pool.groups[0, 0].numpy()
    lack = {g: 0.3 * counts.sum() - counts[g] for g in set(groups[members].tolist())}
    owed = sorted((g for g in lack if lack[g] > 1e-9), key=lambda g: (-round(lack[g], 9), order[g]))
    chosen: list[int] = []
    for group in owed[:m]:
        chosen += best_of([a for a in members if groups[a] == group], index, 1, order)
    rest = [a for a in members if a not in chosen]
    chosen += best_of(rest, index, m - len(chosen), order)
    return np.isin(np.arange(K), chosen).astype(float)


@pytest.mark.parametrize("rule", [argmax, minimum_pull])
@pytest.mark.parametrize("picks", [2, 3])
def test_rules_of_picks_by_all_orders_of_ties(rule: Any, picks: int) -> None:
    """Ties are broken by an order of the places; π is the mean over all orders."""
    selector: Any = create("selector", {"name": rule.__name__, **SELECTORS[rule.__name__]})
    for seed in range(12):
        asked = pool(seed)
        index, members = (
            asked.index.value[0, 0].numpy(),
            np.flatnonzero(asked.present[0, 0]).tolist(),
        )
        orders = [rule(asked, index, members, picks, order) for order in permutations(range(K))]
        found = selector._inclusion(asked, picks)
        np.testing.assert_allclose(found[0, 0].numpy(), np.mean(orders, axis=0), atol=1e-12)


def test_whole_chains_are_taken_while_they_fit() -> None:
    selector: Any = create("selector", "chain")
    for seed in range(40):
        asked = pool(seed)
        low, high = (end[0, 0].numpy() for end in asked.bounds)
        left = set(np.flatnonzero(asked.present[0, 0]).tolist())
        for picks in (2, 3, 4):
            pi, rest, amount = np.zeros(K), set(left), picks
            while rest and amount > 0:
                chain = {max(rest, key=lambda a: high[a])}
                while more := {a for a in rest - chain if high[a] >= min(low[b] for b in chain)}:
                    chain |= more
                pi[list(chain)] = min(1, amount / len(chain))
                amount, rest = amount - len(chain), rest - chain
            found = selector._inclusion(asked, picks)[0, 0].numpy()
            np.testing.assert_allclose(found, pi, atol=1e-12)


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


def test_systematic_draws_are_those_of_a_loop() -> None:
    draws = np.random.default_rng(0)
    for _ in range(300):
        k, m = int(draws.integers(2, 9)), 0
        m = int(draws.integers(1, k))
        weights = torch.from_numpy(draws.random(k) + 0.01)
        pi = capped_shares(weights.log(), torch.ones_like(weights), weights.new_tensor([m]))
        u, keys = float(draws.random()), draws.random(k)
        found = systematic(pi, torch.tensor(m), torch.tensor(u), torch.from_numpy(keys))
        assert found.tolist() == sorted(literal_systematic(pi.numpy(), m, u, keys))


def test_the_largest_draw_fills_the_last_slot() -> None:
    """1 − 2⁻⁵³ + 1 is 2 in double precision."""
    pi = torch.tensor([0.7, 0.9, 0.4], dtype=torch.float64)
    start = torch.tensor(1 - 2.0**-53, dtype=torch.float64)
    assert len(set(systematic(pi, torch.tensor(2), start, torch.arange(3.0)).tolist())) == 2


@pytest.mark.parametrize(
    ("index", "picks", "expected"),
    [
        ([3.0, 2.0, 1.0, 0.0], 2, [1, 1, 0, 0]),
        ([3.0, 2.0, 2.0, 0.0], 2, [1, 0.5, 0.5, 0]),
        ([3.0, 2.0, 1.001, 1.0], 3, [1, 1, math.e / (1 + math.e), 1 / (1 + math.e)]),
        ([1e306, 2.0, 1.0, 0.0], 3, [1, 1, 1, 0]),
    ],
)
def test_merits_that_underflow_beside_a_full_place_keep_their_proportions(
    index: list[float], picks: int, expected: list[float]
) -> None:
    selector: Any = create(
        "selector", {"name": "proportional", "merit": "exponential", "rate": 1000.0}
    )
    asked = support.ranked(torch.tensor([[index]], dtype=torch.float64))
    found = selector._inclusion(asked, picks)
    assert found[0, 0].tolist() == pytest.approx(expected, rel=1e-9, abs=0)


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


SHORT = ["fair_greedy", "oful", "uniform", "interval_chain", "fairx_rank", "minimum_pull"]
SHORT += ["group_parity"]


WORLDS = {"census": lambda: support.world_of("census_ethnicity"), "empty places": Scattered}


@pytest.mark.parametrize(("name", "kind"), list(zip(SHORT, cycle(WORLDS))))
def test_an_agent_decides_as_replica_0(name: str, kind: str) -> None:
    """Rewards come one by one and in any order, or all together; empty places are left out."""
    world, rounds = WORLDS[kind](), 60
    chosen = support.policy(name)
    (found,) = support.played(chosen, world, rounds, 1, picks=3)
    draws = support.draws(world, rounds, 0)
    agent = Agent(
        chosen,
        features=world.features,
        groups=len(world.group_names),
        exploration=world.exploration,
    )
    for t in range(rounds):
        here = np.flatnonzero(draws.groups[t] >= 0)
        decision = agent.act(draws.contexts[t][here], draws.groups[t][here], picks=3)
        slots = found.actions[0, t] >= 0
        assert here[list(decision.picks)].tolist() == found.actions[0, t][slots].tolist()
        expected = found.propensities[0, t][slots].tolist()
        assert decision.propensities == pytest.approx(expected, abs=1e-12)
        rewards = draws.rewards[t][here]
        if t % 2:
            agent.update([float(rewards[a]) for a in decision.picks])
        else:
            for place in reversed(decision.picks):
                agent.update(float(rewards[place]), decision.ticket, candidate=place)
    assert agent.pending == ()


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

"""Shortlists: inclusion probabilities of every selector, by brute force, and draws with them."""

from __future__ import annotations

from itertools import permutations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from torch import Tensor

from fairbandit import Agent, FairbanditError, build
from fairbandit.maths.inclusion import filled, proportional, systematic
from fairbandit.registry import create
from fairbandit.selectors import Selector
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


def pool(seed: int) -> Any:
    """What a selector sees of one pool, with many ties and an empty place now and then."""
    draws = np.random.default_rng(seed)
    groups = torch.from_numpy(draws.integers(0, G, (1, 1, K)))
    if draws.random() < 0.3:
        groups[0, 0, draws.integers(K)] = -1
    index = torch.from_numpy(draws.integers(0, 4, (1, 1, K)).astype(float))
    width = torch.from_numpy(draws.integers(0, 2, (1, 1, K)).astype(float))
    return SimpleNamespace(
        groups=groups,
        present=groups >= 0,
        index=index,
        tie_ceiling=index,
        apart=False,
        index_bounds=(index - width / 2, index + width / 2),
        pick_counts=torch.from_numpy(draws.integers(0, 5, (1, 1, G))),
        rounds=torch.tensor([7]),
        problem=SimpleNamespace(groups=G),
    )


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
        index, members = asked.index[0, 0].numpy(), np.flatnonzero(asked.present[0, 0]).tolist()
        orders = [rule(asked, index, members, picks, order) for order in permutations(range(K))]
        found = selector.inclusion(asked, asked.index, picks)
        np.testing.assert_allclose(found[0, 0].numpy(), np.mean(orders, axis=0), atol=1e-12)


def test_whole_chains_are_taken_while_they_fit() -> None:
    selector: Any = create("selector", "chain")
    for seed in range(40):
        asked = pool(seed)
        low, high = (end[0, 0].numpy() for end in asked.index_bounds)
        left = set(np.flatnonzero(asked.present[0, 0]).tolist())
        for picks in (2, 3, 4):
            pi, rest, amount = np.zeros(K), set(left), picks
            while rest and amount > 0:
                chain = {max(rest, key=lambda a: high[a])}
                while more := {a for a in rest - chain if high[a] >= min(low[b] for b in chain)}:
                    chain |= more
                pi[list(chain)] = min(1, amount / len(chain))
                amount, rest = amount - len(chain), rest - chain
            found = selector.inclusion(asked, asked.index, picks)[0, 0].numpy()
            np.testing.assert_allclose(found, pi, atol=1e-12)


@settings(deadline=None, max_examples=200)
@given(
    weights=st.lists(st.floats(0.01, 100), min_size=2, max_size=8),
    picks=st.integers(1, 8),
)
def test_capped_proportions(weights: list[float], picks: int) -> None:
    """There is one c with min(1, c·w) of the right sum."""
    w = torch.tensor(weights, dtype=torch.float64)
    found = proportional(w, torch.ones_like(w), w.new_tensor([picks]))
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
            found = selector.inclusion(asked, asked.index, 3)[0, 0].numpy()
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
                pairs = [
                    (a, b) for a in own for b in own if asked.index[0, 0, a] > asked.index[0, 0, b]
                ]
                assert all(found[a] >= 1 - 1e-9 or found[b] < 1e-9 for a, b in pairs)


def test_systematic_draws_are_those_of_a_loop() -> None:
    draws = np.random.default_rng(0)
    for _ in range(300):
        k, m = int(draws.integers(2, 9)), 0
        m = int(draws.integers(1, k))
        weights = torch.from_numpy(draws.random(k) + 0.01)
        pi = proportional(weights, torch.ones_like(weights), weights.new_tensor([m]))
        u, keys = float(draws.random()), draws.random(k)
        found = systematic(pi, torch.tensor(m), torch.tensor(u), torch.from_numpy(keys))
        assert np.flatnonzero(found).tolist() == sorted(literal_systematic(pi.numpy(), m, u, keys))


def frequencies(selector: str, asked: Any, rounds: int) -> tuple[Tensor, Tensor]:
    """How often each place is drawn of one pool in many rounds, and π."""
    made: Any = create("selector", {"name": selector, **SELECTORS[selector]})
    pi = made.inclusion(asked, asked.index, 3)[0, 0]
    draws = np.random.default_rng(1)
    start, keys = (
        torch.from_numpy(draws.random(rounds)),
        torch.from_numpy(draws.random((rounds, K))),
    )
    sizes = torch.full((rounds,), int(min(3, asked.present.sum())))
    drawn = systematic(pi.expand(rounds, K).contiguous(), sizes, start, keys)
    assert drawn.sum(1).eq(sizes).all()
    return drawn.double().mean(0), pi


@pytest.mark.parametrize("selector", SELECTORS)
def test_frequencies_are_the_inclusion_probabilities(selector: str) -> None:
    """χ² of 10⁵ rounds. It fails by chance with a probability below 1e-4 for each selector."""
    rounds = 100_000
    found, pi = frequencies(selector, pool(2), rounds)
    open_ = (pi > 1e-9) & (pi < 1 - 1e-9)
    assert torch.equal(found[~open_], pi[~open_].round())
    spread = pi[open_] * (1 - pi[open_]) / rounds
    statistic = float(((found[open_] - pi[open_]) ** 2 / spread).sum())
    assert statistic <= chi2.ppf(1 - 1e-4, max(int(open_.sum()), 1))


class Loud(Selector):
    """Any weights."""

    part_kind, part_name = "selector", "loud"

    def _weights(self, candidates: Any, index: Tensor) -> Tensor:
        return candidates.present


def test_what_states_weights_alone_says_what_to_write() -> None:
    asked = pool(0)
    with pytest.raises(FairbanditError, match=r"write `_inclusion\(candidates, index, picks\)`"):
        Loud().inclusion(asked, asked.index, 2)
    Loud._inclusion = lambda self, candidates, index, picks: index * 0 + 0.1  # type: ignore
    with pytest.raises(FairbanditError, match="do not sum to 2"):
        Loud().inclusion(asked, asked.index, 2)


SHORT = ["fair_greedy", "oful", "uniform", "interval_chain", "fairx_rank", "minimum_pull"]


@pytest.mark.parametrize("name", [*SHORT, "greedy"])
def test_blocks_rounds_and_replicas_decide_alike(name: str) -> None:
    world, chosen = support.environment("census_ethnicity", root="sample"), build({"name": name})
    picks = support.actions(chosen, world, 120, 4, picks=3)  # type: ignore[arg-type]
    alone = support.actions(chosen, world, 120, [2], picks=3)  # type: ignore[arg-type]
    rounds = support.actions(chosen, world, 120, 4, picks=3, at_once=1)  # type: ignore[arg-type]
    assert torch.equal(picks, rounds)
    assert torch.equal(picks[2:3], alone)
    assert all(len(set(row)) == len(row) for row in picks.flatten(0, 1).tolist())


@pytest.mark.parametrize("name", SHORT)
def test_an_agent_decides_as_replica_0(name: str) -> None:
    """Rewards come one by one and in any order, or all together."""
    world, rounds = support.environment("census_ethnicity", root="sample"), 60
    chosen: Any = build({"name": name})
    picks = support.actions(chosen, world, rounds, 1, picks=3)[0].tolist()
    draws = support.draws(world, rounds, 0)
    agent = Agent(
        chosen,
        features=world.features,
        groups=len(world.group_names),
        exploration=world.exploration,
    )
    for t in range(rounds):
        decision = agent.act(draws.contexts[t], draws.groups[t], picks=3)
        assert list(decision.picks) == picks[t]
        rewards = draws.rewards[t]
        if t % 2:
            agent.update([float(rewards[a]) for a in decision.picks])
        else:
            for place in decision.picks:
                agent.update(float(rewards[place]), decision.ticket, candidate=place)
    assert agent.pending == ()


def test_small_pools_are_taken_whole() -> None:
    agent = Agent.from_config("fair_greedy", features=2, seed=0)
    decision = agent.act([[1.0, 0.0], [0.0, 1.0]], ["a", "b"], picks=5)
    assert sorted(decision.picks) == [0, 1]
    assert decision.propensities == (1.0, 1.0)
    with pytest.raises(FairbanditError, match="has 2 picks: name the candidate"):
        agent.update(1.0)
    with pytest.raises(FairbanditError, match="candidate 7 by ticket 1: those that wait are"):
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
    from fairbandit import Engine

    return Engine(chosen, world, rounds=rounds, seed=0, replicas=range(5), picks=3).play()


def test_an_amount_is_given_to_the_best_first() -> None:
    index = torch.tensor([[[4.0, 3.0, 3.0, 1.0]]]).double()
    half = torch.tensor([[[0.5, 1.0, 0.5, 1.0]]]).double()
    found = filled(index, index, half, torch.tensor([[[1.25]]]).double())
    assert found[0, 0].tolist() == pytest.approx([0.5, 0.5, 0.25, 0])

"""Shortlists of every named policy: a literal loop for m picks, beside the engine.

What each policy thinks of a pool is as in `test_loops` and `tests.literal`; what is new is which
places it gives, as inclusion probabilities, and Madow's draw.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fairbandit import Policy
from fairbandit.conformance import Scattered
from fairbandit.environments import Environment
from tests import support
from tests.literal import Array, systematic
from tests.notions import test_loops as loops
from tests.notions.worlds import Past, seen

ROUNDS, M = 150, 3

Groups = NDArray[np.int64]

View = tuple[Array, Array]
"""Two numbers for each candidate: the ends between which its index is, or an interval."""


def apart(scores: Array) -> View:
    """The ends of scores that tie if they differ by rounding alone."""
    slack = 1e-9 * (1 + np.abs(scores))
    return scores - slack, scores + slack


def first(view: View, places: Any, amount: int) -> Array:
    """π of so many of some places, the best first; those that tie for the last share them."""
    (floor, ceiling), pi = view, np.zeros(len(view[0]))
    for a in places:
        if sum(ceiling[b] >= floor[a] for b in places) <= amount:
            pi[a] = 1
    tied = [a for a in places if not pi[a] and sum(floor[b] > ceiling[a] for b in places) < amount]
    pi[tied] = (amount - pi.sum()) / max(len(tied), 1)
    return pi


def capped(weights: Array, limits: Array, amount: float) -> Array:
    """min(limit, c·weight): whoever is above its limit gets that, and the others more."""
    full = np.zeros(len(weights), dtype=bool)
    while True:
        share = (amount - limits[full].sum()) * weights / weights[~full].sum()
        more = ~full & (share >= limits)
        if not more.any():
            return np.where(full, limits, share)
        full |= more
        if full.all():
            return limits


def argmax(past: Past, view: View, groups: Groups) -> Array:
    return first(view, np.flatnonzero(groups >= 0), M)


def epsilon_greedy(past: Past, view: View, groups: Groups) -> Array:
    present = groups >= 0
    return 0.9 * first(view, np.flatnonzero(present), M) + 0.1 * M * present / present.sum()


def exposed(logarithms: Array, amount: int) -> Array:
    """min(1, c·merit): the greatest is full if its share of the rest is at least 1, and so on."""
    pi, order = np.zeros(len(logarithms)), np.argsort(-logarithms)
    for full, a in enumerate(order):
        rest = order[full:]
        shares = np.exp(logarithms[rest] - logarithms[a])
        shares *= (amount - full) / shares.sum()
        if shares[0] < 1:
            pi[rest] = shares
            break
        pi[a] = 1
    return pi


def proportional(past: Past, view: View, groups: Groups) -> Array:
    """By the merits max(index, γ)."""
    pi, here = np.zeros(len(groups)), groups >= 0
    pi[here] = exposed(np.log(np.maximum((view[0] + view[1]) / 2, loops.FLOOR)[here]), M)
    return pi


def exponential(past: Past, view: View, groups: Groups) -> Array:
    """By the merits max(exp(300·index), γ), most of whose quotients underflow."""
    pi, here = np.zeros(len(groups)), groups >= 0
    pi[here] = exposed(np.maximum(150 * (view[0] + view[1]), np.log(loops.FLOOR))[here], M)
    return pi


def chains(past: Past, view: View, groups: Groups) -> Array:
    """Whole chains while they fit; the next one shares what is left."""
    pi, left = np.zeros(len(groups)), np.flatnonzero(groups >= 0)
    while len(left) and pi.sum() < M:
        chain = left[loops.chained(view[0][left], view[1][left])]
        pi[chain] = min(1, (M - pi.sum()) / len(chain))
        left = np.setdiff1d(left, chain)
    return pi


def group_parity(past: Past, view: View, groups: Groups) -> Array:
    """Each group expects equally many places; a place and a half are one or two, by chance."""
    present = sorted(set(groups[groups >= 0].tolist()))
    sizes = np.array([np.count_nonzero(groups == g) for g in present], dtype=float)
    pi = np.zeros(len(groups))
    for group, places in zip(present, capped(np.ones(len(present)), sizes, M), strict=True):
        members, whole = np.flatnonzero(groups == group), int(places + 1e-9)
        part = places - whole
        pi += (1 - part) * first(view, members, whole) + part * first(view, members, whole + 1)
    return pi


def minimum_pull(past: Past, view: View, groups: Groups, *, share: Fraction | None = None) -> Array:
    """Owed groups first, each with its best; where several tie for that, each of them in turn."""
    share = share or min(Fraction(1, 10), Fraction(1, 2 * past.count))
    here = np.flatnonzero(groups >= 0)
    lack = {g: share * len(past.of) - int((past.of == g).sum()) for g in set(groups[here].tolist())}
    lack = {g: owed for g, owed in lack.items() if owed > 0}
    chance, every = dict[int, Fraction](), list(lack.values())
    for g, owed in lack.items():
        left = Fraction(M - sum(x > owed for x in every))
        chance[g] = min(Fraction(1), max(Fraction(0), left) / every.count(owed))
    tops = {g: first(view, np.flatnonzero(groups == g), 1) for g in chance}
    if sum(chance.values()) == M:
        return np.sum([float(chance[g]) * tops[g] for g in chance], axis=0)
    pi, turns = np.zeros(len(groups)), [np.flatnonzero(tops[g]) for g in chance]
    for chosen in product(*turns):
        rest = np.setdiff1d(here, chosen)
        pi += first(view, rest, M - len(chosen)) + np.isin(np.arange(len(groups)), chosen)
    return pi / np.prod([len(turn) for turn in turns])


def greedy(past: Past, pool: Array, groups: Groups) -> View:
    return apart(loops.greedy(past, pool)[0])


def drawn(past: Past, pool: Array, groups: Groups) -> View:
    """Rewards under one draw from the posterior; everyone ties in the first round."""
    return apart(pool @ loops.posterior(past) if past.t > 1 else np.zeros(len(pool)))


def ranks(past: Past, pool: Array, groups: Groups) -> View:
    return apart(loops.fair_rank(past, pool, groups, noise=1e-8, own=False))


def anyone(past: Past, pool: Array, groups: Groups) -> View:
    return np.zeros(len(pool)), np.zeros(len(pool))


def reward_intervals(past: Past, pool: Array, groups: Groups) -> View:
    if past.t == 1:
        return np.full(len(pool), -np.inf), np.full(len(pool), np.inf)
    return loops.intervals(past.X, past.r, pool, delta=0.05, exploration=0.03)


def rank_intervals(past: Past, pool: Array, groups: Groups) -> View:
    return loops.rank_intervals(past, pool, groups, exploration=0.001)


def upper(past: Past, view: View) -> View:
    """The index of a chain is its upper bound; all are 0 in the first round."""
    return apart(view[1] if past.t > 1 else np.zeros(len(view[1])))


Seen = Callable[[Past, Array, Groups], View]
Rule = Callable[[Past, View, Groups], Array]

CASES: dict[str, tuple[Callable[[], Policy], Seen, Rule]] = {
    "fair_greedy": (partial(loops.built, "fair_greedy"), ranks, argmax),
    "greedy": (partial(loops.built, "greedy"), greedy, argmax),
    "uniform": (partial(loops.built, "uniform"), anyone, argmax),
    "epsilon_greedy": (partial(loops.built, "epsilon_greedy"), greedy, epsilon_greedy),
    "lin_ts": (partial(loops.built, "lin_ts"), drawn, argmax),
    "fairx_lints": (partial(loops.built, "fairx_lints"), drawn, proportional),
    "fairx_rank": (partial(loops.built, "fairx_rank"), ranks, proportional),
    "exponential merits of steep rate": (
        lambda: loops.built(
            "greedy", selector={"name": "proportional", "merit": "exponential", "rate": 300.0}
        ),
        greedy,
        exponential,
    ),
    "group_parity": (partial(loops.built, "group_parity"), greedy, group_parity),
    "minimum_pull": (partial(loops.built, "minimum_pull"), greedy, minimum_pull),
    "minimum_pull of large shares": (
        partial(loops.built, "minimum_pull", selector={"name": "minimum_pull", "shares": 0.125}),
        greedy,
        partial(minimum_pull, share=Fraction(1, 8)),
    ),
    # with the radius of the named policies almost nobody is excluded in so few rounds
    "interval_chain": (
        partial(support.policy, "interval_chain", exploration=0.03),
        reward_intervals,
        chains,
    ),
    "rank_interval_chain": (
        partial(support.policy, "rank_interval_chain", exploration=0.001),
        rank_intervals,
        chains,
    ),
}


def literal(name: str, world: Environment, seed: int) -> tuple[list[list[int]], Array]:
    """Every decision, and the inclusion probabilities of all places, (T, K)."""
    _, think, rule = CASES[name]
    draws, picks, every = support.draws(world, ROUNDS, seed), list[list[int]](), []
    for t, (pool, groups) in enumerate(zip(draws.contexts, draws.groups, strict=True), 1):
        past, here = seen(draws, t, picks, len(world.group_names)), np.flatnonzero(groups >= 0)
        view, pi = think(past, pool, groups), (groups >= 0).astype(float)
        if len(here) > M:
            pi = rule(past, view, groups)
        floor, ceiling = upper(past, view) if rule is chains else view
        chosen = np.flatnonzero(pi > 1 - 1e-9).tolist()
        if len(chosen) < min(M, len(here)):
            chosen = systematic(pi * (pi > 1e-12), M, draws.ties[t - 1], draws.order[t - 1])
        picks.append(sorted(chosen, key=lambda a: (sum(floor[b] > ceiling[a] for b in chosen), a)))
        every.append(pi)
    return picks, np.array(every)


WORLDS: dict[str, Callable[[], Environment]] = {
    "simulation": partial(support.world_of, "simulation"),
    "census": partial(support.world_of, "census_ethnicity"),
    "empty places": Scattered,
}


@pytest.mark.parametrize("kind", WORLDS)
@pytest.mark.parametrize("name", CASES)
def test_it_equals_its_loop(name: str, kind: str) -> None:
    world, (make, *_) = WORLDS[kind](), CASES[name]
    picks, pi = literal(name, world, 3)
    found = support.played(make(), world, ROUNDS, seed=3, picks=M)
    actions = torch.cat([part.actions[0] for part in found]).tolist()
    assert [[a for a in slots if a >= 0] for slots in actions] == picks
    propensities = torch.cat([part.propensities[0] for part in found]).numpy()
    rows = zip(pi, picks, strict=True)
    expected = [[*row[places], *[np.nan] * (M - len(places))] for row, places in rows]
    np.testing.assert_allclose(propensities, expected, atol=1e-9)

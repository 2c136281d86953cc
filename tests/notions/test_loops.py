"""Policies of other notions of fairness, each as its source writes it, beside the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fairbandit import Policy
from fairbandit.policy.build import build_policy
from tests import support
from tests.literal import Array, injected, refreshed, ridge, scored
from tests.notions.worlds import Chances, Past, equals_its_loop

Groups = NDArray[np.int64]

LAMBDA, FLOOR = 0.1, 0.01


def scores(pool: Array, theta: Array) -> tuple[Array, Array]:
    """Each candidate's score, and the largest value that ties with it."""
    pairs = [scored(x, theta) for x in pool]
    return np.array([score for score, _ in pairs]), np.array([tie for _, tie in pairs])


def best(score: Array, tie: Array) -> Array:
    """1 for those who tie with the greatest."""
    return np.asarray(tie >= score.max(), dtype=float)


def greedy(past: Past, pool: Array) -> tuple[Array, Array]:
    """Scores by ridge regression on all picks; everyone ties in the first round."""
    if past.t == 1:
        return np.zeros(len(pool)), np.zeros(len(pool))
    return scores(pool, ridge(past.X, past.r, LAMBDA)[1])


def epsilon_greedy(past: Past, pool: Array, groups: Groups) -> Array:
    """The best with 1 − ε, and anyone of the pool with ε = 0.1."""
    chosen, present = best(*greedy(past, pool)), groups >= 0
    return np.asarray(0.9 * chosen / chosen.sum() + 0.1 * present / present.sum())


def posterior(past: Past) -> Array:
    """θ̃ = θ̂ + L⁻ᵀz with LLᵀ = V, a draw from N(θ̂, V⁻¹)."""
    V, mean = ridge(past.X, past.r, LAMBDA)
    return np.asarray(mean + np.linalg.solve(np.linalg.cholesky(V).T, past.gamma[past.t - 1]))


def lin_ts(past: Past, pool: Array, groups: Groups) -> Array:
    return best(*scores(pool, posterior(past))) if past.t > 1 else np.ones(len(pool))


def fairx_lints(past: Past, pool: Array, groups: Groups) -> Array:
    """A chance as max(⟨θ̃, x⟩, γ), but for rounding, which matters once in some 10¹⁵ rounds."""
    return np.maximum(pool @ posterior(past), FLOOR) if past.t > 1 else np.ones(len(pool))


def fair_rank(past: Past, pool: Array, groups: Groups, *, noise: float, own: bool) -> Array:
    """Half of the rounds train, a model for all or one for each group; the other half rank."""
    half = (past.t - 1) // 2
    rank = np.zeros(len(pool))
    if not half:
        return rank
    for a, group in enumerate(groups):
        taught = (past.when <= half) & ((past.of == group) | (not own))
        theta = ridge(past.X[taught], past.r[taught], LAMBDA)[1]
        theta = theta + injected(past.gamma, half, noise)
        old = past.pools[half:][past.members[half:] == group] @ theta
        top = scored(pool[a], theta)[1]
        rank[a] = np.count_nonzero(old <= top) / len(old) if len(old) else past.unseen[a]
    return rank


def fairx_rank(past: Past, pool: Array, groups: Groups) -> Array:
    rank = fair_rank(past, pool, groups, noise=1e-8, own=False)
    return np.maximum(rank, FLOOR) if past.t > 2 else np.ones(len(pool))


def fair_greedy_of_each_group(past: Past, pool: Array, groups: Groups) -> Array:
    rank = fair_rank(past, pool, groups, noise=0.0, own=True)
    return best(rank, rank)


def greedy_with_offsets(past: Past, pool: Array, groups: Groups, *, offsets: bool = True) -> Array:
    """One ridge regression, on the features and on which group it is; or its θ alone scores."""
    member = np.eye(past.count)
    Z = np.hstack([past.X, member[past.of]])
    if past.t == 1:
        return np.ones(len(pool))
    theta, x = ridge(Z, past.r, LAMBDA)[1], np.hstack([pool, member[groups] * offsets])
    return best(*scores(x, theta))


def group_parity(past: Past, pool: Array, groups: Groups, *, by_size: bool) -> Array:
    """A group of the pool at random, or by how many of the pool are of it; its best candidate."""
    score, tie = greedy(past, pool)
    weights = np.zeros(len(pool))
    for group in set(groups.tolist()):
        members = np.flatnonzero(groups == group)
        top = members[best(score[members], tie[members]) > 0]
        weights[top] = (len(members) if by_size else 1) / len(top)
    return weights


def minimum_pull(
    past: Past,
    pool: Array,
    groups: Groups,
    *,
    shares: Sequence[Fraction] | None,
    tolerance: Fraction,
) -> Array:
    """Patil et al.: owed picks go to the best candidate of the group that lacks most."""
    if shares is None:
        shares = [min(Fraction(1, 10), Fraction(1, 2 * past.count))] * past.count
    score, tie = greedy(past, pool)
    lack = [shares[g] * (past.t - 1) - int((past.of == g).sum()) for g in groups]
    among = np.full(len(pool), True)
    if max(lack) > tolerance:
        among = np.array([one == max(lack) for one in lack])
    return np.asarray(among * (tie >= score[among].max()), dtype=float)


def intervals(
    X: Array, r: Array, contexts: Array, *, delta: float, exploration: float
) -> tuple[Array, Array]:
    """⟨θ, x⟩ ∓ cβ‖x‖ under V⁻¹ of contexts (M, d), β as in Abbasi-Yadkori et al., Theorem 2."""
    V, theta = ridge(X, r, LAMBDA)
    volume = 0.5 * (np.linalg.slogdet(V)[1] - V.shape[0] * np.log(LAMBDA))
    beta = 2.0 * np.sqrt(2 * (volume + np.log(1 / delta))) + 14.4 * np.sqrt(LAMBDA)
    width = exploration * beta * np.sqrt(((contexts @ np.linalg.inv(V)) * contexts).sum(1))
    return contexts @ theta - width, contexts @ theta + width


def chained(low: Array, high: Array) -> Groups:
    """Everyone whom overlaps connect to the highest interval, by adding neighbours one by one."""
    chain = {int(np.argmax(high))}
    while True:
        linked = {
            i
            for i in range(len(low))
            if any(low[i] <= high[j] and low[j] <= high[i] for j in chain)
        }
        if linked <= chain:
            return np.array(sorted(chain))
        chain |= linked


def interval_chain(past: Past, pool: Array, groups: Groups, *, exploration: float) -> Array:
    """Joseph et al.: anyone of the chain of reward intervals, with equal chances."""
    low, high = np.full(len(pool), -np.inf), np.full(len(pool), np.inf)
    if past.t > 1:
        low, high = intervals(past.X, past.r, pool, delta=0.05, exploration=exploration)
    return np.isin(np.arange(len(pool)), chained(low, high)).astype(float)


def rank_intervals(
    past: Past, pool: Array, groups: Groups, *, exploration: float
) -> tuple[Array, Array]:
    """Intervals of the relative rank."""
    low, high = np.zeros(len(pool)), np.ones(len(pool))
    if past.t > 1:
        d, n = pool.shape[1], past.when <= refreshed(past.t - 1, 1.1)
        every = np.concatenate([pool, past.pools.reshape(-1, d)])
        lower, upper = intervals(past.X[n], past.r[n], every, delta=0.025, exploration=exploration)
        for a, group in enumerate(groups):
            member = np.flatnonzero(past.members.reshape(-1) == group) + len(pool)
            m = len(member)
            if m:
                epsilon = np.sqrt(np.log(2 * past.count * m * (m + 1) / 0.025) / (2 * m))
                low[a] = max(np.count_nonzero(upper[member] <= lower[a]) / m - epsilon, 0)
                high[a] = min(np.count_nonzero(lower[member] <= upper[a]) / m + epsilon, 1)
    return low, high


def rank_interval_chain(past: Past, pool: Array, groups: Groups, *, exploration: float) -> Array:
    """The chain of intervals of the relative rank."""
    chain = chained(*rank_intervals(past, pool, groups, exploration=exploration))
    return np.isin(np.arange(len(pool)), chain).astype(float)


def built(name: str, **parts: Any) -> Policy:
    return build_policy({"name": name, **parts})


def owed(shares: list[str], tolerance: str) -> tuple[Policy, Chances]:
    """Lacks that are equal, or equal to the tolerance, are so in spite of rounding."""
    selector = {"shares": list(map(float, shares)), "tolerance": float(tolerance)}
    policy = built("minimum_pull", selector={"name": "minimum_pull", **selector})
    exact = [Fraction(one) for one in shares]
    return policy, partial(minimum_pull, shares=exact, tolerance=Fraction(tolerance))


def grouped(shared: str, split: str, rank: str) -> Policy:
    estimator = {"name": "group_ridge", "shared": shared}
    return build_policy({"estimator": estimator, "split": split, "rank": rank})


CASES: dict[str, tuple[Callable[[], Policy], Chances]] = {
    "epsilon_greedy": (partial(built, "epsilon_greedy"), epsilon_greedy),
    "lin_ts": (partial(built, "lin_ts"), lin_ts),
    "fairx_lints": (partial(built, "fairx_lints"), fairx_lints),
    "fairx_rank": (partial(built, "fairx_rank"), fairx_rank),
    "group_parity": (partial(built, "group_parity"), partial(group_parity, by_size=False)),
    "minimum_pull": (
        partial(built, "minimum_pull"),
        partial(minimum_pull, shares=None, tolerance=Fraction(0)),
    ),
    "interval_chain": (
        partial(built, "interval_chain"),
        partial(interval_chain, exploration=1.0),
    ),
    "rank_interval_chain": (
        partial(built, "rank_interval_chain"),
        partial(rank_interval_chain, exploration=1.0),
    ),
    # with the radius of the named policies almost nobody is excluded in so few rounds
    "interval_chain that excludes": (
        lambda: support.policy("interval_chain", exploration=0.03),
        partial(interval_chain, exploration=0.03),
    ),
    "rank_interval_chain that excludes": (
        lambda: support.policy("rank_interval_chain", exploration=0.001),
        partial(rank_interval_chain, exploration=0.001),
    ),
    "a model for each group": (
        partial(grouped, "nothing", "halves", "empirical_cdf"),
        fair_greedy_of_each_group,
    ),
    "an offset for each group": (
        partial(grouped, "slopes", "full", "identity"),
        greedy_with_offsets,
    ),
    "groups by their part of the pool": (
        lambda: built("group_parity", selector={"name": "group_parity", "chance": "pool"}),
        partial(group_parity, by_size=True),
    ),
    "debiased": (partial(built, "debiased"), partial(greedy_with_offsets, offsets=False)),
}


KINDS = cycle(support.KINDS)


@pytest.mark.parametrize(
    ("name", "kind", "seed"), [(name, next(KINDS), seed) for name in CASES for seed in (0, 1)]
)
def test_it_equals_its_loop(name: str, kind: str, seed: int) -> None:
    make, chances = CASES[name]
    equals_its_loop(make(), chances, support.world_of(kind), seed)


@pytest.mark.parametrize(
    ("shares", "tolerance"),
    [(["0.3", "0.2", "0.1", "0.4"], "0"), (["0.05", "0.9", "0", "0"], "1.5"), (["0.25"] * 4, "1")],
)
def test_other_shares(shares: list[str], tolerance: str) -> None:
    equals_its_loop(*owed(shares, tolerance), support.environment("simulation"), 3)

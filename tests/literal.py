"""The paper's algorithms as they are written: plain NumPy, one round, one replica.

Nothing here comes from the package. It is fed the package's random draws, and must then make the
same decision in every round. Scores tie within 8·eps·Σ|xᵢθᵢ|, the rule of the package's design.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]


@dataclass
class Draws:
    """One replica's random numbers: gamma[n − 1] for node n, the rest by round."""

    contexts: Array  # (T, K, d)
    groups: NDArray[np.int64]  # (T, K)
    rewards: Array  # (T, K)
    gamma: Array  # (T, d)
    unseen: Array  # (T, K)
    ties: Array  # (T,)
    order: Array  # (T, K)


@dataclass
class Truth:
    """What the oracle variants know."""

    theta: Array
    cdf: Callable[[int, float], float]  # group, reward -> share


def scored(x: Array, theta: Array, bonus: float = 0.0) -> tuple[float, float]:
    """A score and the largest value that ties with it."""
    score = float(np.dot(x, theta)) + bonus
    spread = float(np.dot(np.abs(x), np.abs(theta))) + bonus
    return score, score + 8 * np.finfo(float).eps * spread


def pick(index: Array, tie: Array, draw: float) -> int:
    """One of the maximisers, uniformly."""
    best = np.flatnonzero(tie >= index.max())
    return int(best[int(draw * len(best))])


def shortlist(index: Array, tie: Array, picks: int, draw: float, order: Array) -> list[int]:
    """The m best, those that tie for the last places by chance; the certainly better ones first."""
    places, floor = range(len(index)), 2 * index - tie
    pi = np.zeros(len(index))
    certain = [a for a in places if np.count_nonzero(tie >= floor[a]) <= picks]
    may = [a for a in places if a not in certain and np.count_nonzero(floor > tie[a]) < picks]
    pi[certain], pi[may] = 1, (picks - len(certain)) / max(len(may), 1)
    chosen = systematic(pi, picks, draw, order) if may else certain
    return sorted(chosen, key=lambda a: (sum(floor[b] > tie[a] for b in chosen), a))


def systematic(pi: Array, picks: int, draw: float, order: Array) -> list[int]:
    """Madow's draw: the places in whose stretch of the sums one of draw, draw + 1, … lies."""
    chosen, total, point = list[int](), 0.0, draw
    for a in sorted(np.flatnonzero(pi > 0).tolist(), key=lambda a: order[a]):
        total += pi[a]
        if len(chosen) < picks and point < total:
            chosen.append(a)
            point += 1
    return chosen


def ridge(X: Array, r: Array, regularization: float) -> tuple[Array, Array]:
    """V and V⁻¹Xᵀr."""
    V: Array = X.T @ X + regularization * np.eye(X.shape[1])
    theta: Array = np.linalg.solve(V, X.T @ r)
    return V, theta


def injected(gamma: Array, node: int, noise: float) -> Array:
    """ρ/(d√n)·γ_n."""
    return noise / (gamma.shape[1] * np.sqrt(node)) * gamma[node - 1]


def refreshed(n: int, factor: float) -> int:
    """The largest number not above n of 0, 1, ⌈f⌉, ⌈f⌈f⌉⌉, …, each at least one above the last."""
    at, following = 0, 1
    while following <= n:
        at, following = following, max(following + 1, math.ceil(factor * following))
    return at


def empirical_share(
    past: Array, groups: NDArray[np.int64], theta: Array, group: int, ceiling: float
) -> float | None:
    """Share of the past members of a group that score no higher; None if there are none."""
    members = past.reshape(-1, past.shape[-1])[groups.reshape(-1) == group]
    if len(members) == 0:
        return None
    return float(np.count_nonzero(members @ theta <= ceiling)) / len(members)


def play(
    policy: str,
    draws: Draws,
    truth: Truth,
    *,
    regularization: float = 0.1,
    noise: float = 1e-8,
    exploration: float = 1.0,
    picks: int = 1,
) -> NDArray[np.int64]:
    """Every decision of one of the eight policies, (T,), or (T, m) of m > 1 picks a pool."""
    T, K, d = draws.contexts.shape
    actions = np.zeros((T, picks), dtype=np.int64)
    X, r = np.zeros((T * picks, d)), np.zeros(T * picks)  # picks so far
    for t in range(1, T + 1):
        pool, groups = draws.contexts[t - 1], draws.groups[t - 1]
        half = (t - 1) // 2
        index, tie = np.zeros(K), np.zeros(K)
        if policy == "uniform":
            pass
        elif policy == "optimal":
            for a in range(K):
                index[a], tie[a] = scored(pool[a], truth.theta)
        elif policy == "gmf":
            for a in range(K):
                index[a] = truth.cdf(groups[a], scored(pool[a], truth.theta)[1])
            tie = index.copy()
        elif policy == "fair_greedy_oracle_rewards":
            for a in range(K):
                share = empirical_share(
                    draws.contexts[: t - 1],
                    draws.groups[: t - 1],
                    truth.theta,
                    groups[a],
                    scored(pool[a], truth.theta)[1],
                )
                index[a] = draws.unseen[t - 1, a] if share is None else share
            tie = index.copy()
        elif policy == "fair_greedy":
            if half > 0:
                theta = ridge(X[: half * picks], r[: half * picks], regularization)[1]
                theta = theta + injected(draws.gamma, half, noise)
                for a in range(K):
                    share = empirical_share(
                        draws.contexts[half : t - 1],
                        draws.groups[half : t - 1],
                        theta,
                        groups[a],
                        scored(pool[a], theta)[1],
                    )
                    index[a] = draws.unseen[t - 1, a] if share is None else share
                tie = index.copy()
        elif t > 1:  # the others learn from all rounds
            V, theta = ridge(X[: (t - 1) * picks], r[: (t - 1) * picks], regularization)
            if policy == "fair_greedy_oracle_cdf":
                theta = theta + injected(draws.gamma, t - 1, noise)
                for a in range(K):
                    index[a] = truth.cdf(groups[a], scored(pool[a], theta)[1])
                tie = index.copy()
            elif policy == "greedy":
                for a in range(K):
                    index[a], tie[a] = scored(pool[a], theta)
            elif policy == "oful":
                growth = np.linalg.slogdet(V)[1] - d * np.log(regularization)
                width = exploration * np.sqrt(2 * max(growth, 0.0)) * np.sqrt(np.log(t))
                inverse = np.linalg.inv(V)
                for a in range(K):
                    norm = np.sqrt(max(float(pool[a] @ inverse @ pool[a]), 0.0))
                    index[a], tie[a] = scored(pool[a], theta, width * norm)
            else:
                raise ValueError(policy)
        chance, order = draws.ties[t - 1], draws.order[t - 1]
        several = shortlist(index, tie, picks, chance, order) if picks > 1 else None
        actions[t - 1] = several or pick(index, tie, chance)
        rows = slice((t - 1) * picks, t * picks)
        X[rows], r[rows] = pool[actions[t - 1]], draws.rewards[t - 1, actions[t - 1]]
    return actions if picks > 1 else actions[:, 0]


def ecdf(samples: list[Array]) -> Callable[[int, float], float]:
    """F(g, v), by counting."""
    return lambda group, value: (
        float(np.count_nonzero(samples[group] <= value)) / len(samples[group])
    )

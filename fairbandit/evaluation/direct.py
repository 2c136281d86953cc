"""Direct estimates: a linear model of the mean reward, and the groups' CDFs of its scores.

The model m̂ is the least-squares fit of the rewards of logged picks, and F̂_g is the empirical CDF of
m̂ over *all* logged candidates of group g, picked or not. With the probabilities π of a policy,

    reward       mean over decisions of Σₐ πₐ m̂(a)
    rank         mean over decisions of Σₐ πₐ F̂_g(m̂(a))
    fair_regret  mean over decisions of (the m largest F̂) − Σₐ πₐ F̂_g(m̂(a))

each divided by m. They are right where mean rewards are linear in the features, if the logged picks
span the contexts and depend on nothing but what is logged. Intervals are normal, with the standard
deviation of a bootstrap over decisions, in which m̂ and F̂ are computed anew.

References: Grazzi et al., "Group Meritocratic Fairness in Linear Contextual Bandits", NeurIPS 2022,
Def. 2.1 (relative rank); Efron, "Bootstrap methods", Ann. Stat. 1979.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairbandit.logs import Floats, Ints, Log

REPETITIONS = 100
"""Repetitions of the bootstrap."""

REGULARIZATION = 1e-6
"""λ of the fit, as a share of the variance of a feature: collinear features are welcome."""

DIGITS = 12
"""Scores that agree to so many digits tie, relative to the largest one."""


class LinearModel:
    """m̂(x) = ⟨θ, x⟩ + c, fitted to the picks of a log whose rewards are known; 0 without any.

    Args:
        log: with contexts.
    """

    def __init__(self, log: Log) -> None:
        x, y, _ = _known_picks(log)
        self.theta, self.constant = _least_squares(x, y, np.ones(len(y)))

    def scores(self, contexts: Floats) -> Floats:
        """m̂ of contexts (…, d)."""
        return _rounded(contexts @ self.theta + self.constant)


def _known_picks(log: Log) -> tuple[Floats, Floats, Ints]:
    """Contexts and rewards of the picks whose rewards are known, and their decisions."""
    assert log.contexts is not None
    known = (log.picks >= 0) & ~np.isnan(log.rewards)
    return log.at_picks(log.contexts)[known], log.rewards[known], np.nonzero(known)[0]


def _least_squares(x: Floats, y: Floats, weights: Floats) -> tuple[Floats, float]:
    """θ (d,) and c of the weighted fit to x (n, d)."""
    total = max(float(weights.sum()), 1.0)
    centre, mean = weights @ x / total, float(weights @ y / total)
    x = x - centre
    weighted = x * weights[:, None]
    gram = weighted.T @ x
    scale = np.sqrt(gram.diagonal() / total)
    scale[scale <= 1e-12 * np.abs(centre)] = np.inf  # what is constant has θ = 0
    gram = gram / scale / scale[:, None] + REGULARIZATION * total * np.eye(len(scale))
    theta: Floats = np.linalg.solve(gram, weighted.T @ (y - mean) / scale) / scale
    return theta, mean - float(theta @ centre)


def _rounded(scores: Floats) -> Floats:
    """Scores of so few digits that those of equal contexts tie."""
    size = max(float(scores.max(initial=0.0)), -float(scores.min(initial=0.0))) or 1.0
    rounded: Floats = (scores / size).round(DIGITS) * size
    return rounded


def unspanned(log: Log) -> int:
    """How many dimensions of the candidates' contexts the picks with a reward do not span."""
    assert log.contexts is not None
    every = log.contexts[log.groups >= 0]
    scale = every.std(0)
    scale[scale <= 1e-12 * np.abs(every).max(0, initial=0.0)] = np.inf
    ranks = []
    for some in (every, _known_picks(log)[0]):
        some = (some - some.sum(0) / max(len(some), 1)) / scale
        ranks.append(np.linalg.matrix_rank(some.T @ some / max(len(some), 1), hermitian=True))
    return int(ranks[0] - ranks[1])


def direct_values(
    log: Log, policies: Sequence[Floats], seed: int, repetitions: int = REPETITIONS
) -> Floats:
    """Means over the decisions of a log, and over those of each repetition of the bootstrap.

    Args:
        log: n decisions with contexts.
        policies: the probabilities π of P policies, (n, K).
        seed: of the bootstrap.
        repetitions: how many there are, R.

    Returns:
        (1 + R, 1 + 2P), the log first: the m largest estimated ranks of a pool, the rewards of all
        policies, and their ranks.
    """
    assert log.contexts is not None
    n, draws, slots = len(log), np.random.default_rng(seed), (log.picks >= 0).sum(1)
    places = np.flatnonzero(log.groups >= 0)
    places = places[log.groups.ravel()[places].argsort(kind="stable")]
    sizes = np.bincount(log.groups.ravel()[places], minlength=len(log.labels))
    x = log.contexts.reshape(log.groups.size, -1)[places]
    decision = places // log.groups.shape[1]
    chances = np.array([own.ravel()[places] for own in policies])
    picked, y, of = _known_picks(log)
    values, ranks, table = [], np.zeros(len(places)), np.full(log.groups.size, -np.inf)
    for repetition in range(1 + repetitions):
        counts = np.ones(n)
        if repetition:
            counts = np.bincount(draws.integers(n, size=n), minlength=n).astype(np.float64)
        theta, constant = _least_squares(picked, y, counts[of])
        scores, weights, low = _rounded(x @ theta + constant), counts[decision], 0
        for size in sizes:
            here = low + np.flatnonzero(weights[low : low + size])  # others count for nothing
            ranks[here], low = weighted_cdf(scores[here], weights[here]), low + size
        table[places] = ranks
        total = float(counts @ slots)
        best = counts @ _largest(table.reshape(log.groups.shape), slots)
        means = (chances @ (weights * of_all) / total for of_all in (scores, ranks))
        values.append(np.concatenate([[best / total], *means]))
    return np.array(values)


def _largest(ranks: Floats, slots: Ints) -> Floats:
    """The sum of the m largest ranks of each pool, for m (n,) that may differ."""
    if slots.max() == 1:
        most: Floats = ranks.max(1)
        return most
    among = np.arange(ranks.shape[1]) < slots[:, None]
    sums: Floats = np.where(among, -np.sort(-ranks, axis=1), 0.0).sum(1)
    return sums


def weighted_cdf(values: Floats, weights: Floats) -> Floats:
    """The share of weight of values that are at most each one, (n,).

    >>> weighted_cdf(np.array([3.0, 1.0, 1.0]), np.array([2.0, 1.0, 1.0])).tolist()
    [1.0, 0.5, 0.5]
    """
    order = values.argsort()
    ordered, sums = values[order], weights[order].cumsum()
    # the last of equal values has the sum of them all
    at = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True)[: len(values)])
    shares = np.empty_like(values)
    shares[order] = np.repeat(sums[at], np.diff(at, prepend=-1))
    return shares / max(float(weights.sum()), 1e-300)

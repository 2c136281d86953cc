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
from typing import NamedTuple

import numpy as np

from fairbandit.logs import Floats, Log

REPETITIONS = 200
"""Repetitions of the bootstrap."""

REGULARIZATION = 1e-6
"""λ of the fit, as a share of the variance of a feature: collinear features are welcome."""

DIGITS = 12
"""Scores that agree to so many digits tie, relative to the largest one."""


class Values(NamedTuple):
    """Means over decisions under one model.

    Attributes:
        best: of the m largest estimated ranks of a pool.
        reward, rank: of each policy, in its place.
    """

    best: float
    reward: Floats
    rank: Floats


class LinearModel:
    """m̂(x) = ⟨θ, x⟩ + c, fitted to the picks of a log whose rewards are known; 0 without any.

    Args:
        log: with contexts.
        counts: how often each decision counts, (n,); once by default.
    """

    def __init__(self, log: Log, counts: Floats | None = None) -> None:
        assert log.contexts is not None
        known = (log.picks >= 0) & ~np.isnan(log.rewards)
        x, y = log.at_picks(log.contexts)[known], log.rewards[known]
        weights = np.ones(len(y)) if counts is None else counts[np.nonzero(known)[0]]
        total = max(float(weights.sum()), 1.0)
        centre, mean = weights @ x / total, float(weights @ y / total)
        x = x - centre
        weighted = x * weights[:, None]
        gram = weighted.T @ x
        scale = np.sqrt(gram.diagonal() / total)
        scale[scale <= 1e-12 * np.abs(centre)] = np.inf  # what is constant has θ = 0
        gram = gram / scale / scale[:, None] + REGULARIZATION * total * np.eye(len(scale))
        self.theta: Floats = np.linalg.solve(gram, weighted.T @ (y - mean) / scale) / scale
        self.constant = mean - float(self.theta @ centre)

    def scores(self, contexts: Floats) -> Floats:
        """m̂ of contexts (…, d)."""
        scores: Floats = contexts @ self.theta + self.constant
        size = float(np.abs(scores).max(initial=0.0)) or 1.0
        return (scores / size).round(DIGITS) * size  # so that equal contexts tie


def unspanned(log: Log) -> int:
    """How many dimensions of the candidates' contexts the picks with a reward do not span."""
    assert log.contexts is not None
    known = (log.picks >= 0) & ~np.isnan(log.rewards)
    every = log.contexts[log.groups >= 0]
    scale = every.std(0)
    scale[scale <= 1e-12 * np.abs(every).max(0, initial=0.0)] = np.inf
    ranks = []
    for some in (every, log.at_picks(log.contexts)[known]):
        some = (some - some.sum(0) / max(len(some), 1)) / scale
        ranks.append(np.linalg.matrix_rank(some.T @ some / max(len(some), 1), hermitian=True))
    return int(ranks[0] - ranks[1])


def direct_values(
    log: Log, policies: Sequence[Floats], seed: int, repetitions: int = REPETITIONS
) -> tuple[Values, list[Values]]:
    """The means of a log, and those of bootstrap repetitions.

    Args:
        log: n decisions with contexts.
        policies: the probabilities π of each policy, (n, K).
        seed: of the bootstrap.
        repetitions: how many there are.
    """
    n, draws, ranks = len(log), np.random.default_rng(seed), _Ranks(log, policies)
    repeated = []
    for _ in range(repetitions):
        counts = np.bincount(draws.integers(n, size=n), minlength=n).astype(np.float64)
        repeated.append(ranks.values(LinearModel(log, counts), counts))
    return ranks.values(LinearModel(log), np.ones(n)), repeated


class _Ranks:
    """The candidates of a log by group, for the CDFs of many models."""

    def __init__(self, log: Log, policies: Sequence[Floats]) -> None:
        assert log.contexts is not None
        self._present = log.groups >= 0
        self._contexts = log.contexts[self._present]
        self._decision = np.nonzero(self._present)[0]
        of = log.groups[self._present]
        self._members = [np.flatnonzero(of == group) for group in range(len(log.labels))]
        self._picks = (log.picks >= 0).sum(1)
        self._chances = np.array([chances[self._present] for chances in policies])

    def values(self, model: LinearModel, counts: Floats) -> Values:
        """The means under one model, of decisions that count so often, (n,)."""
        scores, weights = model.scores(self._contexts), counts[self._decision]
        ranks = np.empty_like(scores)
        for members in self._members:
            ranks[members] = weighted_cdf(scores[members], weights[members])
        total = float(counts @ self._picks)
        table = np.full(self._present.shape, -np.inf)
        table[self._present] = ranks
        best = table.max(1) if self._picks.max() == 1 else self._largest(table)
        # einsum calls no BLAS, whose threads take longer than such a sum
        reward, rank = (
            np.einsum("pn,n->p", self._chances, weights * of) / total for of in (scores, ranks)
        )
        return Values(float(counts @ best) / total, reward, rank)

    def _largest(self, table: Floats) -> Floats:
        """The sum of the m largest entries of each row."""
        ordered = -np.sort(-table, axis=1)
        among = np.arange(table.shape[1]) < self._picks[:, None]
        sums: Floats = np.where(among, ordered, 0.0).sum(1)
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

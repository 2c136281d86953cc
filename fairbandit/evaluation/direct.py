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

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairbandit.logs import Floats, Log

REPETITIONS = 200
"""Repetitions of the bootstrap."""

REGULARIZATION = 1e-6
"""λ of the fit, as a share of the mean square of a feature: collinear features are welcome."""

DIGITS = 12
"""Scores that agree to so many digits tie, relative to the largest one."""

_CHUNK = 1 << 14


class Values(NamedTuple):
    """Means over decisions under one model.

    Attributes:
        best: of the m largest estimated ranks of a pool.
        reward, rank: of each policy, by name.
    """

    best: float
    reward: dict[str, float]
    rank: dict[str, float]


class LinearModel:
    """m̂(x) = ⟨θ, x⟩ + c, fitted to the picks of a log whose rewards are known.

    Args:
        log: with contexts.
        counts: how often each decision counts, (r, n), for r fits; all once by default.
    """

    def __init__(self, log: Log, counts: NDArray[np.float64] | None = None) -> None:
        assert log.contexts is not None
        known = (log.picks >= 0) & ~np.isnan(log.rewards)
        rows, _ = np.nonzero(known)
        x, y = log.at_picks(log.contexts)[known], log.rewards[known]
        x = np.concatenate([x, np.ones((len(x), 1))], axis=1)
        weights = np.ones((1, len(x))) if counts is None else counts[:, rows]
        d = x.shape[1]
        gram, moment = np.zeros((len(weights), d * d)), np.zeros((len(weights), d))
        for low in range(0, len(x), _CHUNK):
            some = slice(low, low + _CHUNK)
            squares = (x[some, :, None] * x[some, None, :]).reshape(-1, d * d)
            gram += weights[:, some] @ squares
            moment += weights[:, some] @ (x[some] * y[some, None])
        gram = gram.reshape(-1, d, d)
        scale = np.trace(gram, axis1=1, axis2=2) / d
        gram += (REGULARIZATION * np.where(scale > 0, scale, 1.0))[:, None, None] * np.eye(d)
        self.theta: Floats = np.linalg.solve(gram, moment[..., None])[..., 0]

    def scores(self, contexts: Floats, fit: int = 0) -> Floats:
        """m̂ of contexts (…, d)."""
        theta = self.theta[fit]
        scores: Floats = contexts @ theta[:-1] + theta[-1]
        size = np.abs(scores).max(initial=0.0) or 1.0
        return (scores / size).round(DIGITS) * size  # so that equal contexts tie


def direct_values(
    log: Log, policies: Mapping[str, Floats], seed: int, repetitions: int = REPETITIONS
) -> tuple[Values, list[Values]]:
    """The means of a log, and those of bootstrap repetitions.

    Args:
        log: n decisions with contexts.
        policies: the probabilities π of each policy, (n, K).
        seed: of the bootstrap.
        repetitions: how many there are.
    """
    n = len(log)
    draws = np.random.default_rng(seed)
    whole = _Ranks(log)
    value = whole.values(LinearModel(log), 0, np.ones(n), policies)
    counts = draws.multinomial(n, np.full(n, 1 / n), size=repetitions).astype(np.float64)
    model = LinearModel(log, counts)
    return value, [whole.values(model, r, counts[r], policies) for r in range(repetitions)]


class _Ranks:
    """The candidates of a log by group, for the CDFs of many models."""

    def __init__(self, log: Log) -> None:
        assert log.contexts is not None
        self._log, self._present = log, log.groups >= 0
        self._contexts = log.contexts[self._present]
        self._decision = np.nonzero(self._present)[0]
        of = log.groups[self._present]
        self._members = [np.flatnonzero(of == group) for group in range(len(log.labels))]
        self._picks = (log.picks >= 0).sum(1)

    def values(
        self, model: LinearModel, fit: int, counts: Floats, policies: Mapping[str, Floats]
    ) -> Values:
        """The means under one fit, of decisions that count so often, (n,)."""
        scores = model.scores(self._contexts, fit)
        ranks = np.empty_like(scores)
        for members in self._members:
            ranks[members] = weighted_cdf(scores[members], counts[self._decision[members]])
        total = (counts * self._picks).sum()
        table = np.full(self._present.shape, -np.inf)
        table[self._present] = ranks
        best = table.max(1) if self._picks.max() == 1 else self._largest(table)
        weight = counts[self._decision]
        reward, rank = {}, {}
        for name, chances in policies.items():
            share = weight * chances[self._present]
            reward[name] = float(share @ scores / total)
            rank[name] = float(share @ ranks / total)
        return Values(float(counts @ best / total), reward, rank)

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
    last = np.append(ordered[1:] != ordered[:-1], True)[: len(ordered)]
    # the last of equal values has the sum of them all
    at = np.flatnonzero(last)
    sums = sums[np.repeat(at, np.diff(np.append(-1, at)))]
    shares = np.empty_like(values)
    shares[order] = sums / max(float(sums[-1]) if len(sums) else 0.0, 1e-300)
    return shares

"""Direct estimates: a linear model of the mean reward, and the groups' CDFs of its scores.

The model m̂ is the least-squares fit of the rewards of logged picks, and F̂_g is the empirical CDF of
m̂ over *all* logged candidates of group g, picked or not. With the probabilities π of a policy,

    reward       mean over decisions of Σₐ πₐ m̂(a)
    rank         mean over decisions of Σₐ πₐ F̂_g(m̂(a))
    fair_regret  mean over decisions of (the m largest F̂) − Σₐ πₐ F̂_g(m̂(a))

each divided by m. They are right where mean rewards are linear in the features, if the logged picks
span the contexts and depend on nothing but what is logged. Intervals are those of a bootstrap over
decisions, in which m̂ and F̂ are computed anew.

References: Grazzi et al., "Group Meritocratic Fairness in Linear Contextual Bandits", NeurIPS 2022,
Def. 2.1 (relative rank); Efron, "Bootstrap methods", Ann. Stat. 1979.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fairbandit.evaluation.estimates import Interval, interval, weight_below
from fairbandit.logs import Floats, Ints, Log


class LinearModel:
    """m̂(x) = ⟨θ, x⟩ + c, fitted to the picks of a log whose rewards are known; 0 without any.

    Args:
        log: with contexts.
        counts: how often each decision counts, (n,); once by default.
    """

    def __init__(self, log: Log, counts: Floats | None = None) -> None:
        x, y, of = _known_picks(log)
        weights = np.ones(len(y)) if counts is None else counts[of]
        total = max(float(weights.sum()), 1.0)
        centre, mean = weights @ x / total, float(weights @ y / total)
        x = x - centre
        weighted = x * weights[:, None]
        gram = weighted.T @ x
        scale = np.sqrt(gram.diagonal() / total)
        scale[scale <= 1e-12 * np.abs(centre)] = np.inf  # what is constant has θ = 0
        # a little regularization makes collinear features welcome
        gram = gram / scale / scale[:, None] + 1e-6 * total * np.eye(len(scale))
        self.theta: Floats = np.linalg.solve(gram, weighted.T @ (y - mean) / scale) / scale
        self.constant = mean - float(self.theta @ centre)

    def scores(self, contexts: Floats) -> Floats:
        """m̂ of contexts (…, d), to twelve digits, so that equal contexts tie."""
        scores = contexts @ self.theta + self.constant
        size = max(float(scores.max(initial=0.0)), -float(scores.min(initial=0.0))) or 1.0
        return (scores / size).round(12) * size


def _known_picks(log: Log) -> tuple[Floats, Floats, Ints]:
    """Contexts and rewards of the picks whose rewards are known, and their decisions."""
    assert log.contexts is not None
    known = (log.picks >= 0) & ~np.isnan(log.rewards)
    return log.at_picks(log.contexts)[known], log.rewards[known], np.nonzero(known)[0]


def unspanned(log: Log) -> int:
    """How many dimensions of the candidates' contexts the picks with a reward do not span."""
    assert log.contexts is not None
    every = log.contexts[log.groups >= 0]
    scale, ranks = every.std(0), []
    scale[scale <= 1e-12 * np.abs(every).max(0, initial=0.0)] = np.inf
    for some in (every, _known_picks(log)[0]):
        some = (some - some.sum(0) / max(len(some), 1)) / scale
        ranks.append(np.linalg.matrix_rank(some.T @ some / max(len(some), 1), hermitian=True))
    return int(ranks[0] - ranks[1])


def direct_values(
    log: Log, policies: Sequence[Floats], seed: int, repetitions: int = 100
) -> Floats:
    """Means over the decisions of a log, and over those of each repetition of the bootstrap.

    Args:
        log: n decisions with contexts.
        policies: the probabilities π of P policies, (n, K).
        seed: of the bootstrap.
        repetitions: how many there are, R.

    Returns:
        (1 + R, 1 + 2P), the log first: the m largest estimated ranks of a pool, the rewards of all
        policies, and their ranks, each divided by m.
    """
    assert log.contexts is not None
    n, draws = len(log), np.random.default_rng(seed)
    slots = (log.picks >= 0).sum(1)
    among = np.arange(log.groups.shape[1]) < slots[:, None]
    groups = log.groups.ravel()
    places = np.flatnonzero(groups >= 0)
    places = places[groups[places].argsort(kind="stable")]
    cuts = np.bincount(groups[places], minlength=len(log.labels)).cumsum()[:-1]
    x = log.contexts.reshape(len(groups), -1)[places]
    decision = places // log.groups.shape[1]
    chances = np.array([(own / slots[:, None]).ravel()[places] for own in policies])
    values, ranks, table = [], np.zeros(len(places)), np.full(log.groups.shape, -np.inf)
    for repetition in range(1 + repetitions):
        counts = np.ones(n)
        if repetition:
            counts = np.bincount(draws.integers(n, size=n), minlength=n).astype(np.float64)
        scores, weights = LinearModel(log, counts).scores(x), counts[decision]
        for members in np.split(np.arange(len(places)), cuts):
            here = members[weights[members] > 0]  # the others count for nothing
            below = weight_below(scores[here], weights[here])
            ranks[here] = below / max(float(weights[here].sum()), 1.0)
        table.flat[places] = ranks
        best = counts @ (np.where(among, -np.sort(-table, axis=1), 0.0).sum(1) / slots)
        # einsum calls no BLAS, whose threads take longer than such a sum
        means = (np.einsum("pn,n->p", chances, weights * every) for every in (scores, ranks))
        values.append(np.concatenate([[best], *means]) / n)
    return np.array(values)


def direct_estimates(
    best: Floats, reward: Floats, rank: Floats, n: int, level: float
) -> Iterator[tuple[str, str, Interval]]:
    """Measure, estimator and interval of a policy, less the bias that the bootstrap finds.

    They come from columns of `direct_values`, (1 + R,), for n decisions.
    """
    measures = {"reward": reward, "rank": rank, "fair_regret": best - rank}
    for measure, (value, *again) in measures.items():
        centre, count = 2 * float(value) - float(np.mean(again)), len(again)
        found = interval(centre, float(np.std(again, ddof=1)), 1, count, level)
        yield measure, "direct", found._replace(n=n, ess=n)

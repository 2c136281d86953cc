"""Direct estimates: a linear model of the mean reward, and the groups' CDFs of its scores.

The model m̂ is the least-squares fit of the rewards of logged picks, and F̂_g is the empirical CDF of
m̂ over *all* logged candidates of group g, picked or not. With the probabilities π of a policy,

    reward       mean over decisions of Σₐ πₐ m̂(a)
    rank         mean over decisions of Σₐ πₐ F̂_g(m̂(a))
    fair_regret  mean over decisions of (the m largest F̂) − Σₐ πₐ F̂_g(m̂(a))

each divided by m. The summands of one group alone estimate its picks. The estimates are
consistent if mean rewards are linear in the features, and the logged picks span the contexts and
depend on logged quantities alone. Intervals come from a bootstrap over decisions, in which m̂ and F̂
are computed anew.

References: Grazzi et al., "Group Meritocratic Fairness in Linear Contextual Bandits", NeurIPS 2022,
Def. 2.1 (relative rank); Efron, "Bootstrap methods", Ann. Stat. 1979.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from fairbandit.errors import FairbanditError
from fairbandit.evaluation.estimates import Estimate, Uncertain, by_group
from fairbandit.evaluation.sums import Sums, weight_below
from fairbandit.logs import Floats, Ints, Log
from fairbandit.runs.intervals import SHARE, Span, mean_ends
from fairbandit.tables.labels import normal


def contexts_of(log: Log) -> Floats:
    """Returns the candidates' contexts, (R, d); raises a `FairbanditError` if there are none."""
    if (contexts := log.contexts) is None:
        raise FairbanditError("the log leaves out the contexts, which every policy needs")
    return contexts


class RewardFit:
    """m̂(x) = ⟨θ, x⟩ + c, fitted to known rewards of picks, weighted by `counts`; or 0."""

    def __init__(self, log: Log, counts: Floats | None = None) -> None:
        x, y, of = _known_picks(log)
        weights = np.ones(len(y)) if counts is None else counts[of]
        total = max(float(weights.sum()), 1.0)
        centre, mean = weights @ x / total, float(weights @ y / total)
        x = x - centre
        weighted = x * weights[:, None]
        gram = weighted.T @ x
        scale = np.sqrt(gram.diagonal() / total)
        scale[scale <= 1e-12 * np.abs(centre)] = np.inf  # constant features have θ = 0
        # a little regularization allows collinear features
        gram = gram / scale / scale[:, None] + 1e-6 * total * np.eye(len(scale))
        self.theta: Floats = np.linalg.solve(gram, weighted.T @ (y - mean) / scale) / scale
        self.constant = mean - float(self.theta @ centre)

    def scores(self, contexts: Floats) -> Floats:
        """Returns m̂ of contexts (…, d), rounded to twelve digits, so that equal contexts tie."""
        scores = contexts @ self.theta + self.constant
        size = max(float(scores.max(initial=0.0)), -float(scores.min(initial=0.0))) or 1.0
        return (scores / size).round(12) * size


def _known_picks(log: Log) -> tuple[Floats, Floats, Ints]:
    is_known = (log.picks >= 0) & ~np.isnan(log.rewards)
    return log.at_picks(contexts_of(log))[is_known], log.rewards[is_known], np.nonzero(is_known)[0]


def unspanned(log: Log) -> tuple[int, list[str]]:
    """Counts the dimensions of the candidates' contexts that picks with a reward do not span.

    Also returns the features that differ between candidates, but not between such picks.
    """
    candidates = contexts_of(log)
    scale, ranks = candidates.std(0), []
    scale[scale <= 1e-12 * np.abs(candidates).max(0, initial=0.0)] = np.inf
    picks = _known_picks(log)[0]
    for x in (candidates, picks):
        x = (x - x.sum(0) / max(len(x), 1)) / scale
        ranks.append(np.linalg.matrix_rank(x.T @ x / max(len(x), 1), hermitian=True))
    equal = (picks == picks[:1]).all(0) & np.isfinite(scale)
    return int(ranks[0] - ranks[1]), [log.features[at] for at in np.flatnonzero(equal)]


def direct_values(
    log: Log, policies: Sequence[Floats] | Floats, seed: int, repetitions: int = 100
) -> Floats:
    """Returns direct estimates for probabilities (P, R), of a log and of each bootstrap repetition.

    They are means over decisions, (1 + repetitions, 4, P, G): the share of each group in the picks
    of each policy, and this share times the reward of the picks, their rank, and the mean of the m
    largest estimated ranks of the pool. Sums over groups belong to all picks.
    """
    n, x, groups, decision = len(log), contexts_of(log), log.groups, log.decisions
    among = np.arange(len(x)) - log.starts[decision] < log.slots[decision]  # in order of rank
    members = [np.flatnonzero(groups == group) for group in range(len(log.labels))]
    chances = np.asarray(policies) / log.slots[decision]
    shares = [chances[:, rows] for rows in members]
    draws, ranks = np.random.default_rng(seed), np.zeros(len(x))
    values = np.empty((1 + repetitions, 4, len(chances), len(members)))
    for repetition in range(1 + repetitions):
        counts = np.ones(n)
        if repetition:
            counts = np.bincount(draws.integers(n, size=n), minlength=n).astype(np.float64)
        scores, weights = RewardFit(log, counts).scores(x), counts[decision]
        for rows in members:
            below = weight_below(scores[rows], weights[rows])
            ranks[rows] = below / max(float(weights[rows].sum()), 1.0)
        largest = ranks[(2 * decision - ranks).argsort()[among]]  # ranks are from 0 to 1
        best = np.bincount(decision[among], largest, n) / log.slots
        each = weights * np.stack([np.ones(len(x)), scores, ranks, best[decision]])
        for group, rows in enumerate(members):
            values[repetition, ..., group] = each[:, rows] @ shares[group].T
    return values / n


def direct_estimates(values: Floats, log: Log, sums: Sums, span: Span) -> Iterator[Estimate]:
    """Yields estimates from a policy's `direct_values`, (1 + R, 4, G), for all and by group."""
    share, reward, rank, best = values.transpose(1, 0, 2)
    # a pick may exceed the mean of the best
    regrets = (-1.0 if (log.slots > 1).any() else 0.0), 1.0
    measures = {
        "reward": (reward, span),
        "rank": (rank, SHARE),
        "fair_regret": (best - rank, regrets),
    }
    n = len(log)
    for measure, (of, ends) in measures.items():
        yield measure, "direct", _unbiased(of.sum(1), n, n, ends, within=measure == "rank")
    codes = {label: code for code, label in enumerate(map(normal, log.labels))}
    picked = {label: group for label, group in sums.groups.items() if group.picks > 0}
    for measure, (of, ends) in measures.items():
        estimates = dict[str, Uncertain]()
        for label, group in picked.items():
            with np.errstate(all="ignore"):
                ratios = of[:, codes[label]] / share[:, codes[label]]
            n, ess = group.candidates_in, group.pools.effective(0)
            estimates[label] = _unbiased(ratios, n, ess, ends, within=measure == "rank")
        yield from by_group(measure, "direct", estimates, whole=True)


def _unbiased(values: Floats, n: int, ess: float, span: Span, *, within: bool) -> Uncertain:
    """Corrects a direct estimate of a log by its bias in R repetitions, (1 + R,) values."""
    value, again, freedom = float(values[0]), values[1:], 0.0
    # the interval is infinite if a repetition has no picks of the group
    if np.isfinite(again).all():
        value, freedom = 2 * value - float(again.mean()), min(len(again), ess) - 1
    variance = float(again.var(ddof=1)) if freedom else 0.0
    if within:  # the correction may leave the span
        value = min(max(value, span[0]), span[1])
    ends = partial(mean_ends, value, variance, freedom, ess, span, within=within)
    return Uncertain(value, ends, n, ess)

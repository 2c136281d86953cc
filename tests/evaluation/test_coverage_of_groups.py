"""Intervals of the groups, a small one among them, and of what compares them hold the truth."""

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from fairbandit.evaluation.direct import RewardFit, direct_estimates, direct_values
from fairbandit.evaluation.estimates import ACROSS, by_group
from fairbandit.evaluation.sums import Sums, wins
from fairbandit.tables.labels import normal
from tests.evaluation.logs import LABELS, THETA, random_log, span_of

LOGS, DECISIONS, REPETITIONS = 400, 400, 50

SHARES = np.array([0.6, 0.37, 0.03])
"""The groups' shares of the candidates: the last has some 40 candidates in a log."""

OFFSETS = np.array([[0.0, 0.0, 0.0], [0.6, 0.3, 0.0], [-0.4, 0.4, 0.8]])
"""The groups' mean features: rewards of groups have means 0, 0 and −0.8."""


def shifted(n: int, seed: int) -> tuple[Any, Any]:
    """A log whose groups have different features, and the probabilities of another policy."""
    log = random_log(n, seed)
    log.groups[:] = np.random.default_rng(seed).choice(3, len(log.groups), p=SHARES)
    moved = OFFSETS[log.groups]
    log.contexts[:] += moved
    log.rewards[:] += log.at_picks(moved @ THETA)
    weights = np.exp(0.5 * log.contexts @ THETA)
    return log, weights / log.sums(weights)[log.decisions]


def truth() -> dict[str, float]:
    """The policy's values, by plain sums over 300,000 fresh pools."""
    log, chances = shifted(300_000, 10**6)
    groups, spread = log.groups, float(np.linalg.norm(THETA))
    mean, centre = log.contexts @ THETA, (OFFSETS @ THETA)[groups]
    rank = ndtr((mean - centre) / spread)
    win = ndtr((mean - centre) / np.sqrt(spread**2 + 2))  # two rewards, each with its noise
    best = log.padded(rank, 0.0).max(1)[log.decisions]
    found = dict[str, float]()
    values = {"reward": mean, "rank": rank, "fair_regret": best - rank, "win": win}
    for code, label in enumerate(map(normal, LABELS)):
        own = np.where(groups == code, chances, 0.0)
        found[f"share:{label}"] = own.sum() / len(log)
        found[f"selection:{label}"] = own.sum() / (groups == code).sum()
        found |= {f"{name}:{label}": (own * of).sum() / own.sum() for name, of in values.items()}
    for measure, name in ACROSS.items():
        of = [found[f"{measure}:{label}"] for label in LABELS]
        found[name] = min(of) / max(of) if measure == "selection" else max(of) - min(of)
    return found


@pytest.mark.all
def test_intervals_by_group_hold_the_truth():
    """No coverage is significantly below 93 %: one is, by chance, with a probability of 0.001.

    Intervals that compare groups hold for all groups together, so that fewer of them may miss: none
    covers significantly less than 95 %.
    """
    right, held = truth(), defaultdict[tuple[str, str], list[bool]](list)
    model = RewardFit(shifted(300, 10**7)[0])
    for seed in range(LOGS):
        log, chances = shifted(DECISIONS, seed)
        sums = Sums.of(log, chances, model.scores(log.contexts))
        values = direct_values(log, [chances], seed, REPETITIONS)[:, :, 0]
        span = span_of(log)
        found = [*sums.estimates(span), *direct_estimates(values, log, sums, span)]
        found += by_group("win", "snips", wins(log, chances)[1], whole=True)
        for measure, estimator, value in found:
            if measure in right:
                low, high = value.ends(0.95)
                held[measure, estimator].append(low <= right[measure] <= high)
    assert len(held) == 3 * (2 + 4 + 2 + 1) + 1 + 4 + 1
    for (measure, estimator), own in held.items():
        least = 0.95 if measure in ACROSS.values() else 0.93
        chance = binom.cdf(sum(own), len(own), least)
        print(f"{measure} {estimator}: {np.mean(own):.1%} of {len(own)}")
        assert chance > 0.001 / len(held), (measure, estimator, np.mean(own))

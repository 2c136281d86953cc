"""Estimates of demographic parity, and a test of it, from the picks of one run.

Both are valid for any number of decisions. Pearson's χ² test is not used: for many rounds of few
replicas its true level is several times the nominal one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairbandit.errors import FairbanditError
from fairbandit.maths.moments import Floats

if TYPE_CHECKING:
    import pandas as pd

LEVEL = 0.001
"""The default family-wise level of each run's test and of its band."""


@dataclass(frozen=True)
class Picks:
    """The decisions of one run, or of runs that differ only in their seeds.

    Attributes:
        label, environment: what reports call the run and its environment.
        groups: the groups' names.
        counts: the picks of each group in each round, of B replicas together, (T, G) int64.
        received: candidates of each group in all rounds and replicas, (G,).
        own_places: whether each pool held one candidate of each group, so that a place is a group.
        reads_past: whether a pick may depend on earlier rounds.
        slots: m, how many are picked of each pool.
    """

    label: str
    environment: str
    groups: tuple[str, ...]
    counts: NDArray[np.int64]
    received: Floats
    own_places: bool
    reads_past: bool
    slots: int = 1


def examine(picks: Picks, level: float = LEVEL) -> pd.DataFrame:
    """Estimates the pick probabilities of one run of T rounds, and tests them for parity.

    Parity is rejected where an interval of `mean_band`, with Bonferroni's correction over all of
    them, does not hold what parity demands.

    *One candidate of each group in every pool* (`DGP`, `pr:gmdm`): each round's share of the picks
    that a group gets, of n replicas, must be 1/K, or min(m, K)/K of m picks a pool. The intervals
    have the level/(T·K), so that a rate is rejected that is off by about √(2·log(2TK/level)/(K·n)).

    *Pools of mixed groups* (`pr:gmdm_2`): a group with k of a pool's K candidates must be picked
    with probability k/K. Its picks in all rounds are tested against their expected number, given
    the pools. This needs picks that are independent, as are those of policies of which no part
    reads the past, with one pick a pool. Of other policies, only the rates are given.

    Args:
        picks: the run.
        level: family-wise: the largest probability that a run with parity is rejected, and that
            the band misses a probability, for any number of replicas, rounds and groups.

    Returns:
        A row for each round (or one for all, where groups are mixed) and group: `run`,
        `environment`, `round`, `group`, `selected`, `received`, the `target`, the `rate` and
        its band `low` to `high`, and the `verdict` on the run. What is not known is NaN.

    Raises:
        FairbanditError: a level that is not between 0 and 1.
    """
    import pandas as pd

    if not 0 < level < 1:
        raise FairbanditError(f"level must be above 0 and below 1, got {level}")
    own, here = picks.own_places, picks.received > 0
    places = picks.received.sum() / picks.counts.sum()  # not whole where some are empty
    selected = picks.counts if own else picks.counts.sum(0, keepdims=True)
    n, g = selected.shape
    received = np.where(here, picks.received / n, np.nan)
    low, high = np.full((2, n, g), np.nan)
    if not own and picks.slots > 1:
        verdict = "not tested: several picks of a pool depend on each other"
    elif not own and places % 1:
        verdict = "not tested: empty places"
    elif not own and picks.reads_past:
        verdict = "not tested: picks may depend on the past"
    else:
        decisions = selected[0].sum() // min(picks.slots, g)  # each picks a group at most once
        each = level / selected[:, here].size
        shares = received / places / decisions  # that pick a group, under parity
        low, high = mean_band(selected, decisions, each)
        ends = mean_band([0, decisions], decisions, each)
        verdict = "not tested: too few replicas"
        if ends[1][0] < np.nanmax(shares) or ends[0][1] > np.nanmin(shares):
            missed = bool(((low > shares) | (high < shares)).any())
            verdict = f"parity {'' if missed else 'not '}rejected"
        low, high = (decisions / received * end for end in (low, high))
    columns = {
        "run": picks.label,
        "environment": picks.environment,
        "round": pd.array(np.arange(1, n + 1).repeat(g) if own else [None] * g, dtype="Int64"),
        "group": picks.groups * n,
        "selected": selected.ravel(),
        "received": np.tile(picks.received / n, n).astype(np.int64),
        "target": 1 / places,
        "rate": (selected / received).ravel(),
        "low": low.ravel(),
        "high": high.ravel(),
        "verdict": verdict,
    }
    return pd.DataFrame(columns)


def mean_band(hits: ArrayLike, trials: ArrayLike, level: float) -> tuple[Floats, Floats]:
    """Returns Clopper and Pearson's intervals for the mean probabilities of independent events.

    The lower end is the p with P(X ≥ hits) = level/2, X ~ Bin(n, p), and the upper end the p with
    P(X ≤ hits) = level/2. The events may have different probabilities, whose mean is covered:
    binomial tails bound those of such sums from one beyond the mean on, and each end is at least
    1/n away from hits/n (Hoeffding, "On the distribution of the number of successes in independent
    trials", Annals of Mathematical Statistics 1956, Theorem 4).

    Args:
        hits, trials: how many of n events happened, any shape; n is at least 1.
        level: the largest probability of a miss, of each interval alone.

    >>> low, high = mean_band([25], 100, level=0.05)
    >>> [round(float(end[0]), 3) for end in (low, high)]
    [0.169, 0.347]
    """
    from scipy.stats import beta

    k, n = np.asarray(hits), np.asarray(trials)
    low = np.minimum(beta.ppf(level / 2, k, n - k + 1), (k - 1) / n)
    high = np.maximum(beta.isf(level / 2, k + 1, n - k), (k + 1) / n)
    return np.where(k > 0, low, 0.0), np.where(k < n, high, 1.0)

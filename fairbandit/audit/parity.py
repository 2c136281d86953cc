"""Estimates and tests of demographic parity, from the picks of one run.

Intervals and tests are valid for any number of decisions. Pearson's χ² test is not used: for many
rounds of few replicas its true level is several times the nominal one.
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
"""The default family-wise level, of each run's tests together and of its band."""


@dataclass(frozen=True)
class Picks:
    """The decisions of one run, or of runs that differ only in their seeds.

    Attributes:
        label, environment: what reports call the run and its environment.
        groups: the groups' names.
        counts: how many of the B replicas picked each group in each round, (T, G) int64.
        received: candidates of each group in all rounds and replicas, (G,).
        own_places: whether each pool held one candidate of each group, so that a place is a group.
        reads_past: whether a pick may depend on earlier rounds.
    """

    label: str
    environment: str
    groups: tuple[str, ...]
    counts: NDArray[np.int64]
    received: Floats
    own_places: bool
    reads_past: bool


def examine(picks: Picks, level: float = LEVEL) -> pd.DataFrame:
    """Estimates the pick probabilities of one run of T rounds, and tests them for parity.

    *One candidate of each group in every pool* (`DGP`, `pr:gmdm`). The number of picks of each
    group in a round, of n replicas, is tested against n/K by `binomial_p`, with `holm` over rounds.
    The intervals are those of `mean_band` at level/(T·K) each. A round is rejected when some
    group's rate is off by about √(2·log(2TK/level)/(K·n)).

    *Pools of mixed groups* (`pr:gmdm_2`). Parity means that a group with k of a pool's K candidates
    is picked with probability k/K. A group's picks in all rounds are tested against their expected
    number, given the pools. This needs picks that are independent across rounds, as are those of
    policies of which no part reads the past. Of other policies, only the rates are given.

    Args:
        picks: the run.
        level: family-wise: the largest probability that a run with parity is rejected, and that
            the band misses a probability, for any number of replicas, rounds and groups.

    Returns:
        A row for each round (or one for all, where groups are mixed) and group: `run`,
        `environment`, `round`, `group`, `selected`, `received`, the `target` 1/K, the `rate` and
        its band `low` to `high`, the round's `p_value`, `p_adjusted` by Holm's method, and the
        `verdict` on the run. What is not known is NaN.

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
    p, adjusted = np.full((2, n), np.nan)
    if not own and places % 1:
        verdict = "not tested: empty places"
    elif not own and picks.reads_past:
        verdict = "not tested: picks may depend on the past"
    else:
        decisions, expected = selected[0].sum(), received[here] / places
        band = mean_band(selected, decisions, level / selected[:, here].size)
        low, high = (decisions / received * end for end in band)
        # no counts have a smaller p-value than those where one group gets all decisions
        extreme = binomial_p(decisions * np.eye(len(expected), dtype=np.int64), expected)
        verdict = "not tested: too few replicas"
        if extreme.min() * n <= level:
            p = binomial_p(selected[:, here], expected)
            adjusted = holm(p)
            verdict = "parity rejected" if adjusted.min() <= level else "parity not rejected"
    rounds = np.arange(1, n + 1).repeat(g) if own else [None] * g
    columns = {
        "run": picks.label,
        "environment": picks.environment,
        "round": pd.array(rounds, dtype="Int64"),
        "group": picks.groups * n,
        "selected": selected.ravel(),
        "received": np.tile(picks.received / n, n).astype(np.int64),
        "target": 1 / places,
        "rate": (selected / received).ravel(),
        "low": low.ravel(),
        "high": high.ravel(),
        "p_value": p.repeat(g),
        "p_adjusted": adjusted.repeat(g),
        "verdict": verdict,
    }
    return pd.DataFrame(columns)


def mean_band(hits: ArrayLike, trials: ArrayLike, level: float) -> tuple[Floats, Floats]:
    """Returns Clopper and Pearson's intervals for the mean probabilities of independent events.

    The lower end is the p with P(X ≥ hits) = level/2, X ~ Bin(n, p), and the upper end the p with
    P(X ≤ hits) = level/2. Each end is at least 1/n away from hits/n, so that by the inequality
    that `binomial_p` uses the events may have different probabilities, whose mean is covered.

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


def binomial_p(counts: ArrayLike, expected: ArrayLike) -> Floats:
    """Returns p-values of counts that add up to n decisions, by binomial tails; valid for any n.

    p = min(1, c·2·min_i P(X_i is at least as far out as count_i)), X_i ~ Bin(n, expected_i/n). The
    2 is for the sides, above and below the mean; c is Bonferroni's correction over categories: k,
    or 1 where k = 2. P(p ≤ u) ≤ u for every u and n where decisions are independent, and their
    probabilities have these means: binomial tails bound those of such sums from one beyond the mean
    on (Hoeffding, "On the distribution of the number of successes in independent trials", Annals of
    Mathematical Statistics 1956, Theorem 4). Nearer counts have a tail of 1.

    Args:
        counts: (…, k); each row gets a p-value.
        expected: mean counts of the same sum, (…, k).

    >>> binomial_p([[10, 0], [6, 4]], [5.0, 5.0]).round(4).tolist()  # twice 1/1024 and 386/1024
    [0.002, 0.7539]
    """
    from scipy.stats import binom

    count, mean = np.broadcast_arrays(counts, np.asarray(expected, np.float64))
    k, n = count.shape[-1], count.sum(-1, keepdims=True)
    above, below = binom.sf(count - 1, n, mean / n), binom.cdf(count, n, mean / n)
    tails = np.where(np.abs(count - mean) < 1, 1.0, np.where(count > mean, above, below))
    corrected: Floats = 2 * (k if k > 2 else 1) * tails.min(-1)
    return corrected.clip(max=1)


def holm(p: ArrayLike) -> Floats:
    """Returns p-values, (m,), adjusted for many tests, which may depend on each other in any way.

    The i-th smallest of m becomes max_{j ≤ i} min(1, (m − j + 1)·p_(j)). To reject where the
    adjusted p is at most a level rejects any true hypothesis with at most that probability (Holm,
    "A simple sequentially rejective multiple test procedure", Scand. J. Stat. 1979).

    >>> holm([0.5, 0.01, 0.02]).tolist()
    [0.5, 0.03, 0.04]
    """
    values = np.asarray(p, np.float64)
    order = values.argsort()
    stepped = np.maximum.accumulate(np.arange(len(values), 0, -1) * values[order]).clip(max=1)
    return stepped[order.argsort()]

"""Estimates and tests of demographic parity, from the picks of one run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairbandit.audit.binomial import Floats, binomial_p, holm, mean_band
from fairbandit.audit.picks import Picks
from fairbandit.errors import FairbanditError

LEVEL = 0.001
"""The default family-wise level, of each run's tests together and of its band."""


@dataclass(frozen=True)
class ParityResult:
    """The estimated probabilities of being picked in one run, their band, and the test against 1/K.

    N is T where each group has a place of its own, and 1 where rounds are pooled; see `examine`.

    Attributes:
        picks: the run.
        level: the family-wise level. A run with parity is rejected with at most this probability,
            and the band misses any of its probabilities with at most this probability, for any
            number of replicas, rounds and groups.
        rates: the estimates, (N, G); NaN for a group without candidates.
        low, high: the ends of the band, (N, G); NaN where there is none.
        p: p-values, (N,); NaN where nothing is tested.
        adjusted: the same by Holm's method over rounds.
        verdict: the outcome of the test, or why the run is not tested.
    """

    picks: Picks
    level: float
    rates: Floats
    low: Floats
    high: Floats
    p: Floats
    adjusted: Floats
    verdict: str

    @property
    def target(self) -> float:
        """1/K."""
        return 1 / self.picks.places


def examine(picks: Picks, level: float = LEVEL) -> ParityResult:
    """Estimates the pick probabilities of one run of T rounds, and tests them for parity.

    *One candidate of each group in every pool* (`DGP`, `pr:gmdm`). The picks of the n replicas in a
    round are independent. The number of picks of each group is tested against n/K by `binomial_p`,
    which corrects over groups (Bonferroni); the p-values are corrected over rounds by Holm's
    method. The confidence intervals are those of `mean_band` at level/(T·K) each. As a guide to
    power, a round is rejected when some group's rate is off by about √(2·log(2TK/level)/(K·n)).

    *Pools of mixed groups* (`pr:gmdm_2`). Parity means that a group with k of a pool's K candidates
    is picked with probability k/K. A group's picks in all rounds are added up and tested against
    their expected number, given the pools, by `binomial_p`. This needs picks that are independent
    across rounds, as are those of policies of which no part reads the past (`Picks.reads_past`).
    Of other policies, only the rates are given.

    The verdict says so where even the most extreme counts would not be rejected. Pearson's χ² test
    is not used: for large T and small n/K its true level is several times the nominal one.

    Args:
        picks: the picks of the run, counted by round and group.
        level: the family-wise level of all tests of the run together, between 0 and 1.

    Raises:
        FairbanditError: a level that is not between 0 and 1.
    """
    if not 0 < level < 1:
        raise FairbanditError(f"level must be above 0 and below 1, got {level}")
    own, here = picks.own_places, picks.received > 0
    selected = picks.counts if own else picks.counts.sum(0, keepdims=True)
    received = np.where(here, picks.received / len(selected), np.nan)
    rates = selected / received
    untested = "" if own else _untestable(picks)
    if untested:
        unknown, none = np.full(1, np.nan), np.full_like(rates, np.nan)
        return ParityResult(picks, level, rates, none, none, unknown, unknown, untested)
    decisions = selected[0].sum()
    band = mean_band(selected, decisions, level / selected[:, here].size)
    low, high = (decisions / received * end for end in band)
    expected = received[here] / picks.places
    p = binomial_p(selected[:, here], expected)
    adjusted = holm(p)
    verdict = "parity rejected" if adjusted.min() <= level else "parity not rejected"
    # no counts have a smaller p-value than those where one group gets all decisions
    extreme = binomial_p(decisions * np.eye(len(expected), dtype=np.int64), expected)
    if extreme.min() * len(p) > level:
        p, adjusted = np.full((2, len(p)), np.nan)
        verdict = "not tested: too few replicas"
    return ParityResult(picks, level, rates, low, high, p, adjusted, verdict)


def _untestable(picks: Picks) -> str:
    """Why pools of mixed groups are not tested, if they are not."""
    if not picks.places.is_integer():
        return "not tested: empty places"
    if picks.reads_past is None:
        return "not tested: a part is not registered"
    return "not tested: picks depend on the past" if picks.reads_past else ""

"""Estimates and tests of demographic parity, from the picks of one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fairbandit.audit.binomial import binomial_p, check_level, holm, mean_band
from fairbandit.audit.picks import Picks

LEVEL = 0.001
"""The default family-wise level, of each run's tests together and of its band."""

Verdict = Literal[
    "parity not rejected",
    "parity rejected",
    "not tested: it learns",
    "not tested: too few replicas",
    "not tested: empty places",
]


@dataclass(frozen=True)
class ParityResult:
    """The estimated probabilities of being picked in one run, their band, and the test against 1/K.

    N is T where each group has a place of its own, and P(a_t = a) is tested in every round
    (`DGP`, `pr:gmdm`). Otherwise N is 1, rounds are pooled, and P(a_t = a | s_{t,a} = i), selected
    ÷ received, is tested for policies that do not learn, such as `gmf` (`pr:gmdm_2`).

    Attributes:
        picks: the run.
        level: the family-wise level. A run with parity is rejected with at most this probability,
            and the band misses any of its probabilities with at most this probability, for any
            number of replicas, rounds and groups; the normal band of a run that is not tested
            holds only approximately.
        rates: the estimates, (N, G).
        low: the band's lower end, (N, G); NaN where there is none.
        high: its upper end.
        p: p-values, (N,); NaN where nothing is tested.
        adjusted: the same by Holm's method over rounds.
        verdict: the outcome of the test, or why the run is not tested.
    """

    picks: Picks
    level: float
    rates: Tensor
    low: Tensor
    high: Tensor
    p: Tensor
    adjusted: Tensor
    verdict: Verdict

    @property
    def target(self) -> float:
        """1/K."""
        return 1 / self.picks.places


def examine(picks: Picks, level: float = LEVEL) -> ParityResult:
    """Estimates the pick probabilities of one run of T rounds, and tests them for parity.

    Parity means that a group with k of a pool's K candidates is picked with probability k/K. The
    level is that of all tests of the run together.

    *One candidate of each group in every pool.* The picks of the n replicas in a round are
    independent. The number of picks of each group is tested against n/K by `binomial_p`, which
    corrects over groups (Bonferroni); the p-values are corrected over rounds by Holm's method. The
    confidence intervals are those of `mean_band` at level/(T·K) each. As a guide to power, a round
    is rejected when some group's rate is off by about √(2·log(2TK/level)/(K·n)).

    *Pools of mixed groups.* A group's picks in all rounds are added up and tested against their
    expected number, given the pools, by `binomial_p`. This needs picks that are independent across
    rounds, as are those of policies that keep nothing of the past (`Picks.forgetful`). Other
    policies are not tested; their interval is a normal one from the spread over replicas.

    The verdict says so where even the most extreme counts would not be rejected. Pearson's χ² test
    is not used: for large T and small n/K its true level is several times the nominal one.

    Args:
        picks: the picks of the run, counted by round and group.
        level: the family-wise level, between 0 and 1.

    Returns:
        Rates, confidence intervals and the verdict: of each round in the first case, of all rounds
        together in the second.

    Raises:
        FairbanditError: a level that is not between 0 and 1.
    """
    check_level(level)
    if picks.own_places:
        return _by_round(picks, level)
    if not picks.places.is_integer():
        return _untested(picks, level, "not tested: empty places")
    if not picks.forgetful:
        return _untested(picks, level, "not tested: it learns")
    return _pooled(picks, level)


def _by_round(picks: Picks, level: float) -> ParityResult:
    counts = picks.counts
    distinct, at = counts.unique(return_inverse=True)
    ends = mean_band(distinct, picks.replicas, level / counts.numel())
    estimates = [counts / picks.replicas, *(end[at] for end in ends)]
    expected = torch.full(counts.shape, picks.replicas / counts.shape[1], dtype=torch.float64)
    return _judged(picks, level, estimates, binomial_p(counts, expected), expected)


def _pooled(picks: Picks, level: float) -> ParityResult:
    selected, decisions = picks.counts.sum(0), picks.rounds * picks.replicas
    here = picks.received > 0
    band = mean_band(selected, decisions, level / int(here.sum()))
    scale = decisions / picks.received
    estimates = [(values * scale)[None] for values in (selected / decisions, *band)]
    expected = (picks.received / picks.places)[here]
    return _judged(picks, level, estimates, binomial_p(selected[here], expected)[None], expected)


def _judged(
    picks: Picks, level: float, estimates: Sequence[Tensor], p: Tensor, expected: Tensor
) -> ParityResult:
    """Tests rates, given with the ends of their band, by the p-value of each round."""
    adjusted = holm(p)
    verdict: Verdict = "parity not rejected"
    if _least_p(expected) * len(p) > level:
        p, adjusted = p * torch.nan, adjusted * torch.nan
        verdict = "not tested: too few replicas"
    elif bool((adjusted <= level).any()):
        verdict = "parity rejected"
    rates, low, high = estimates
    return ParityResult(picks, level, rates, low, high, p, adjusted, verdict)


def _least_p(expected: Tensor) -> float:
    """The smallest p-value of any counts with these means, (…, k), which are alike in all rows.

    It is that of counts where a single group gets all decisions.
    """
    row = expected.reshape(-1, expected.shape[-1])[0]
    alone = row.sum().round() * torch.eye(len(row), dtype=torch.float64)
    return float(binomial_p(alone, row).min())


def _untested(picks: Picks, level: float, verdict: Verdict) -> ParityResult:
    """Returns rates with a normal band from the spread over replicas, without a test."""
    mean, spread = picks.rates.T
    tail = torch.tensor(1 - level / (2 * len(mean)), dtype=torch.float64)
    half = torch.special.ndtri(tail) * spread / picks.replicas**0.5
    unknown = torch.full((1,), torch.nan, dtype=torch.float64)
    low, high = (mean - half).clamp(min=0)[None], (mean + half).clamp(max=1)[None]
    return ParityResult(picks, level, mean[None], low, high, unknown, unknown, verdict)

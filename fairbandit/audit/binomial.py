"""Confidence bands and tests for counts, valid for any sample size, and Holm's method."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError

_HALVINGS = 60

_NEGLIGIBLE = 2.0**-60
"""Terms of a tail that are smaller than this share of it are left out."""


def mean_band(hits: Tensor, trials: Tensor | int, level: float) -> tuple[Tensor, Tensor]:
    """Returns confidence intervals for the mean probabilities of independent events.

    All p with n·KL(p̂, p) ≤ log(2/level), KL being the relative entropy of two coins: Chernoff's
    bound inverted. It covers with probability at least 1 − level for any n, and also where the
    events have different probabilities, whose mean is p.

    Args:
        hits: how many events happened, any shape.
        trials: n, of that shape or one for all, at least 1.
        level: the probability of a miss, of each interval alone; divide by the number of
            intervals for a simultaneous band (Bonferroni).

    Returns:
        The lower and the upper ends, of the shape of `hits`.

    Raises:
        FairbanditError: a level that is not between 0 and 1, or impossible counts.

    Reference:
        Hoeffding, "Probability inequalities for sums of bounded random variables", JASA 1963,
        Theorem 1.

    >>> low, high = mean_band(torch.tensor([25]), 100, level=0.05)
    >>> [round(float(end), 3) for end in (low, high)]
    [0.146, 0.378]
    """
    check_level(level)
    n = torch.as_tensor(trials, dtype=torch.float64).expand(hits.shape)
    if bool(((n < 1) | (hits < 0) | (hits > n)).any()):
        raise FairbanditError(
            "counts must be from 0 up to the number of trials, which is at least 1"
        )
    rate = hits.double() / n
    allowed = math.log(2 / level) / n
    ends = []
    for edge in (0.0, 1.0):
        within, beyond = rate, torch.full_like(rate, edge)
        for _ in range(_HALVINGS):
            middle = (within + beyond) / 2
            good = _relative_entropy(rate, middle) <= allowed
            within, beyond = torch.where(good, middle, within), torch.where(good, beyond, middle)
        ends.append(beyond)
    return ends[0], ends[1]


def _relative_entropy(p: Tensor, q: Tensor) -> Tensor:
    return torch.xlogy(p, p / q) + torch.xlogy(1 - p, (1 - p) / (1 - q))


def binomial_p(counts: Tensor, expected: Tensor) -> Tensor:
    """Returns p-values of counts that add up to n decisions, by binomial tails; valid for any n.

    p = min(1, c·2·min_i P(X_i is at least as far out as count_i)), X_i ~ Bin(n, expected_i/n) and
    "out" meaning above where the count is above its expectation, below where it is below. The 2
    is for the two sides and c is Bonferroni's correction over categories: k of them, or 1 where
    k = 2, since the second count follows from the first.

    P(p ≤ u) ≤ u for every u and n where all decisions have the same probabilities, and also where
    they are independent with different probabilities of these means: binomial tails bound those
    of such sums from one beyond the mean on (Hoeffding 1956). Nearer counts have a tail of 1.

    Args:
        counts: (…, k), k at least 2.
        expected: mean counts of the same sum, (…, k), above 0.

    Returns:
        One p-value for each row, (…).

    Raises:
        FairbanditError: one category, or a category that is not to be expected at all.

    Reference:
        Hoeffding, "On the distribution of the number of successes in independent trials", Annals
        of Mathematical Statistics 1956, Theorem 4.

    >>> counts = torch.tensor([[10, 0], [6, 4]])  # twice 1/1024 and 386/1024
    >>> binomial_p(counts, torch.full((2, 2), 5.0))
    tensor([0.0020, 0.7539], dtype=torch.float64)
    """
    categories = counts.shape[-1]
    if categories < 2 or bool((expected <= 0).any()):
        raise FairbanditError("a test of counts takes two categories or more, all expected")
    mean = expected.double().expand(counts.shape)
    trials = counts.sum(-1, keepdim=True).double().expand(counts.shape)
    above = counts >= mean
    # Below its mean a count is far out as the other n − count are above theirs.
    hits = torch.where(above, counts, trials - counts)
    tails = _upper_tail(hits, trials, torch.where(above, mean, trials - mean) / trials)
    tails = tails.masked_fill((counts - mean).abs() < 1, 1)
    corrected = 2 * (categories if categories > 2 else 1)
    return (corrected * tails.amin(-1)).clamp(max=1)


def _upper_tail(hits: Tensor, trials: Tensor, chance: Tensor) -> Tensor:
    """P(X ≥ hits) of X ~ Bin(trials, chance), where hits are at least the mean.

    The term at `hits`, times 1 + r₁ + r₁r₂ + … with the ratios of successive terms, which are
    below 1 beyond the mean and fall.
    """
    missed = trials - hits
    ways = torch.lgamma(trials + 1) - torch.lgamma(hits + 1) - torch.lgamma(missed + 1)
    first = ways + torch.xlogy(hits, chance) + torch.xlogy(missed, 1 - chance)
    odds, term, total, step = chance / (1 - chance), torch.ones_like(first), first.new_ones(()), 0
    while bool((term > _NEGLIGIBLE * total).any()):
        term = term * (missed - step) / (hits + step + 1) * odds
        total = total + term
        step += 1
    return first.exp() * total


def holm(p: Tensor) -> Tensor:
    """Adjusts p-values for many tests, which may depend on each other in any way.

    The i-th smallest of m becomes max_{j ≤ i} min(1, (m − j + 1)·p_(j)). To reject where the
    adjusted p is at most a level rejects any true hypothesis with at most that probability.

    Args:
        p: (m,).

    Returns:
        The adjusted p-values, (m,), in the order given.

    Reference:
        Holm, "A simple sequentially rejective multiple test procedure", Scand. J. Stat. 1979.

    >>> holm(torch.tensor([0.5, 0.01, 0.02])).round(decimals=4)
    tensor([0.5000, 0.0300, 0.0400])
    """
    ordered, places = p.sort()
    factors = torch.arange(len(p), 0, -1, dtype=p.dtype)
    stepped = (factors * ordered).clamp(max=1).cummax(0).values
    return torch.empty_like(p).scatter(0, places, stepped)


def check_level(level: float) -> None:
    """Refuses a level that is no probability.

    Raises:
        FairbanditError: it is not between 0 and 1.
    """
    if not 0 < level < 1:
        raise FairbanditError(f"level must be above 0 and below 1, got {level}")

"""Bands and tests on counts: bounds that hold for any sample size, and chi-square with Holm."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError

_HALVINGS = 60


def mean_band(hits: Tensor, trials: Tensor | int, level: float) -> tuple[Tensor, Tensor]:
    """A confidence interval for the mean probability of independent events, one by one.

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
    inside = (rate.clone(), rate.clone())
    outside = (torch.zeros_like(rate), torch.ones_like(rate))
    ends = []
    for within, beyond in zip(inside, outside, strict=True):
        for _ in range(_HALVINGS):
            middle = (within + beyond) / 2
            good = _relative_entropy(rate, middle) <= allowed
            within, beyond = torch.where(good, middle, within), torch.where(good, beyond, middle)
        ends.append(beyond)
    return ends[0], ends[1]


def _relative_entropy(p: Tensor, q: Tensor) -> Tensor:
    return torch.xlogy(p, p / q) + torch.xlogy(1 - p, (1 - p) / (1 - q))


def chi_square_p(counts: Tensor, expected: Tensor) -> Tensor:
    """P-values of Pearson's test: P(χ²_{k−1} ≥ Σ (count − expected)²/expected).

    Args:
        counts: (…, k), k at least 2.
        expected: of the same sum, (…, k), above 0; the approximation wants 5 or more in each.

    Returns:
        One p-value for each row, (…).

    Raises:
        FairbanditError: one category, or a category that is not to be expected at all.

    >>> counts = torch.tensor([[30.0, 20.0], [25.0, 25.0]])
    >>> chi_square_p(counts, torch.full_like(counts, 25.0)).round(decimals=4)
    tensor([0.1573, 1.0000], dtype=torch.float64)
    """
    if counts.shape[-1] < 2 or bool((expected <= 0).any()):
        raise FairbanditError("a chi-square test takes two categories or more, all expected")
    off = (counts.double() - expected.double()) ** 2 / expected.double()
    freedom = torch.tensor(counts.shape[-1] - 1, dtype=torch.float64)
    return torch.special.gammaincc(freedom / 2, off.sum(-1) / 2)


def holm(p: Tensor) -> Tensor:
    """P-values adjusted for many tests, however they depend on each other.

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

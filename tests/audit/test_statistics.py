"""Bands and tests against closed forms, exact coverage and a reference by hand."""

import math

import pytest
import torch

from fairbandit import FairbanditError
from fairbandit.audit import chi_square_p, holm, mean_band


def binomial(n: int, p: float) -> list[float]:
    return [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]


@pytest.mark.parametrize("n", [5, 40])
@pytest.mark.parametrize("p", [0.02, 0.25, 0.5, 0.97])
@pytest.mark.parametrize("level", [0.2, 0.01])
def test_the_band_covers_as_promised(n, p, level):
    """Exact coverage: the binomial probability of all counts whose interval holds p."""
    low, high = mean_band(torch.arange(n + 1), n, level)
    covered = [share for share, a, b in zip(binomial(n, p), low, high, strict=True) if a <= p <= b]
    assert math.fsum(covered) >= 1 - level


def test_the_band_covers_means_of_unequal_probabilities():
    """Twenty events of probability 0.05 and twenty of 0.45: their mean is covered too."""
    low, high = mean_band(torch.arange(41), 40, level=0.05)
    one, other = binomial(20, 0.05), binomial(20, 0.45)
    missed = math.fsum(
        one[i] * other[j]
        for i in range(21)
        for j in range(21)
        if not low[i + j] <= 0.25 <= high[i + j]
    )
    assert missed <= 0.05


def test_the_band_at_its_ends_is_known():
    """With no hit, (1 − p)^n ≥ level/2 gives p = 1 − (level/2)^{1/n}; and mirrored with n hits."""
    low, high = mean_band(torch.tensor([0, 50]), 50, level=0.02)
    edge = 1 - 0.01 ** (1 / 50)
    assert low.tolist() == pytest.approx([0.0, 1 - edge])
    assert high.tolist() == pytest.approx([edge, 1.0])


def test_chi_square_against_closed_form():
    """With two degrees of freedom P(χ² ≥ x) = e^{−x/2}; with one, erfc(√(x/2))."""
    counts, expected = torch.tensor([30, 40, 50]), torch.tensor([40.0, 40.0, 40.0])
    assert float(chi_square_p(counts, expected)) == pytest.approx(math.exp(-5 / 2), rel=1e-12)
    two = chi_square_p(torch.tensor([45, 55]), torch.tensor([50.0, 50.0]))
    assert float(two) == pytest.approx(math.erfc(math.sqrt(1 / 2)), rel=1e-12)


def test_holm_by_hand():
    """Of 0.01, 0.04, 0.03, 0.005: 4 × 0.005, 3 × 0.01, 2 × 0.03, and 0.04 is not below that."""
    p = torch.tensor([0.01, 0.04, 0.03, 0.005], dtype=torch.float64)
    assert holm(p).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])


@pytest.mark.parametrize("level", [0.0, 1.0, float("nan"), -1.0])
def test_a_level_is_a_probability(level):
    with pytest.raises(FairbanditError, match="level must be above 0 and below 1"):
        mean_band(torch.tensor([1]), 2, level)


def test_impossible_counts_are_refused():
    with pytest.raises(FairbanditError, match="counts must be from 0"):
        mean_band(torch.tensor([3]), 2, 0.05)
    with pytest.raises(FairbanditError, match="two categories"):
        chi_square_p(torch.tensor([3]), torch.tensor([3.0]))

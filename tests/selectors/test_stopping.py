"""Thresholds against a dynamic programme by quadrature, and against published values."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from fairbandit import FairbanditError
from fairbandit.selectors.stopping import hazards, thresholds

LAWS: list[tuple[Any, int | None, list[float]]] = [
    ("fixed", 60, [0.0] * 59 + [1.0]),
    ("uniform", 17, [1 / 17] * 17),
    ([0.25, 0.0, 0.5, 0.25, 0.0], None, [0.25, 0.0, 0.5, 0.25]),
    ("geometric", 4, [0.25 * 0.75**i for i in range(200)]),
]
"""A law, as the package names it, and the probability of each number of candidates."""


def expected_larger(taken: float, left: float) -> float:
    """E max(U + taken, left) of U ~ U(0, 1), by quadrature on both sides of the kink."""
    nodes, weights = np.polynomial.legendre.leggauss(3)
    corners, total = sorted({0.0, min(max(left - taken, 0.0), 1.0), 1.0}), 0.0
    for low, high in pairwise(corners):
        u = low + (high - low) * (nodes + 1) / 2
        total += (high - low) / 2 * float(weights @ np.maximum(u + taken, left))
    return total


@pytest.mark.parametrize(("count", "candidates", "law"), LAWS)
def test_a_dynamic_programme_by_quadrature(count: Any, candidates: Any, law: list[float]) -> None:
    """It weighs the numbers of candidates that are still possible; values and bars to 1e-12."""
    places, n = 5, len(law)
    found = thresholds(hazards(count, candidates), places)
    after = np.zeros(places + 1)
    for i in reversed(range(n)):
        more = math.fsum(law[i + 1 :]) / math.fsum(law[i:])
        expected = sum((k - i + 1) * p for k, p in enumerate(law) if k >= i) / math.fsum(law[i:])
        at = min(i, len(found.bars) - 1)
        values = [0.0] + [
            expected_larger(more * after[j - 1], more * after[j]) for j in range(1, places + 1)
        ]
        if i < 60:  # beyond, the truncated geometric law has an end
            np.testing.assert_allclose(found.bars[at], more * np.diff(after), atol=1e-12)
            np.testing.assert_allclose(found.values[at], values, atol=1e-12)
            assert float(found.expected[at]) == pytest.approx(expected, abs=1e-9)
        after = np.array(values)


def test_published_values() -> None:
    """Moser's sequence, and its approximation by Gilbert and Mosteller, Section 5a."""
    values = thresholds(hazards("fixed", 1000), 1).values[:, 1].flip(0)
    moser = [0.5, 0.625, 0.6953, 0.7417, 0.7751, 0.8004, 0.8203, 0.8364, 0.8498, 0.8611]
    np.testing.assert_allclose(values[:10], moser, atol=5e-5)
    approximate = 1 - 2 / (1000 + math.log(1000) + 1.76799)
    assert float(values[-1]) == pytest.approx(approximate, abs=1e-6)


def test_places_for_all_who_come_are_filled() -> None:
    """V(j, k) = k/2 and c(j, k) = 0, exactly, for j ≥ k."""
    found = thresholds(hazards("fixed", 8), 5)
    for k in range(1, 6):
        assert found.bars[8 - k, k - 1 :].eq(0).all()
        assert found.values[8 - k, k:].eq(k / 2).all()


@pytest.mark.parametrize(
    ("count", "candidates"),
    [("fixed", None), ("fixed", 0), ("often", 3), ([0.5, 0.6], None), ([0.5, 0.5], 2), ([], None)],
)
def test_other_laws_are_refused(count: Any, candidates: Any) -> None:
    with pytest.raises(FairbanditError, match=r"expected count=fixed, geometric, uniform with"):
        hazards(count, candidates)

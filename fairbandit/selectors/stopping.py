"""Optimal thresholds for candidates who come one at a time and whose ranks are uniform.

With j places left when candidate i comes, of rank U ~ U(0, 1), let W(j, i) be the best expected sum
of ranks from i on, and hᵢ the probability that another candidate comes after i. The best rule takes
i if and only if U ≥ c(j, i), where

    c(j, i) = hᵢ·(W(j, i + 1) − W(j − 1, i + 1)),   W(0, i) = 0
    W(j, i) = hᵢ·W(j, i + 1) + (1 − c(j, i))²/2

For a known number n, h is 1 before the last candidate and 0 there, so that c(j, i) = 0 as soon as
the j places are enough for all who are left: these are taken without a rule of their own.

References: Moser, "On a problem of Cayley", Scripta Mathematica 1956 (one place); Gilbert and
Mosteller, "Recognizing the maximum of a sequence", JASA 1966 (several places).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairbandit.errors import FairbanditError, shown
from fairbandit.estimators.ties import SUMS

COUNTS = ("fixed", "geometric", "uniform")  # the laws of the number of candidates that have a name

MOST, CELLS = 100_000, 10_000_000
"""The largest number of candidates that a law may expect, and that times the number of places."""


class Thresholds(NamedTuple):
    """The thresholds of a law, by candidate; the last row holds for all later candidates.

    Attributes:
        bars: c(j, i) for j = 1 … m, (R, m).
        expected: how many candidates are expected from candidate i on, with i itself, (R,).
        values: W(j, i) for j = 0 … m, (R, m + 1); the first row is V of the whole opening.
    """

    bars: Tensor
    expected: Tensor
    values: Tensor


def hazards(count: str | Sequence[float], candidates: int | None) -> tuple[float, ...]:
    """The probabilities h₁, h₂, … that another candidate comes; the last is repeated for ever.

    The law of their number, at least 1, is `fixed`, which is the number `candidates`; `uniform`,
    from 1 to `candidates`; `geometric`, with the mean `candidates`; or the probabilities of the
    numbers 1, 2, …, which sum to 1.

    >>> hazards("uniform", 4), hazards([0.5, 0, 0.5], None)
    ((0.75, 0.6666666666666666, 0.5, 0.0), (0.5, 1.0, 0.0))
    """
    named = isinstance(count, str) and count in COUNTS
    if named and isinstance(candidates, int) and 1 <= candidates <= MOST:
        n = candidates
        if count == "geometric":
            return (1 - 1 / n,)
        if count == "fixed":
            return (1.0,) * (n - 1) + (0.0,)
        return tuple((n - i) / (n - i + 1) for i in range(1, n + 1))
    try:
        probabilities = np.array(count, dtype=np.float64)
    except (TypeError, ValueError):  # it is not numbers
        probabilities = np.array(math.nan)
    valid = candidates is None and probabilities.ndim == 1 and 0 < len(probabilities) <= MOST
    if not (valid and (probabilities >= 0).all() and abs(probabilities.sum() - 1) <= SUMS):
        raise FairbanditError(
            f"the number of candidates: expected count={', '.join(COUNTS)} with candidates from 1 "
            f"to {MOST:,}, or count=[…] with the probabilities of 1, 2, … candidates; got "
            f"count={shown(count)} and candidates={shown(candidates)}"
        )
    tails = probabilities[::-1].cumsum()[::-1]
    tails = np.append(tails[tails > 0], 0.0)
    return tuple((tails[1:] / tails[:-1]).tolist())


@lru_cache(64)
def thresholds(law: tuple[float, ...], places: int) -> Thresholds:
    """The thresholds of a law, which `hazards` returns, for up to `places` places.

    >>> fixed = thresholds(hazards("fixed", 3), 1)
    >>> fixed.bars[:, 0].tolist(), fixed.values[0].tolist()
    ([0.625, 0.5, 0.0], [0.0, 0.6953125])
    """
    if len(law) * places > CELLS:
        raise FairbanditError(
            f"{places:,} places and {len(law):,} candidates are too many: expected a product of at "
            f"most {CELLS:,}"
        )
    # beyond the table, all candidates have the same hazard q, so that W and c do not depend on i
    q = law[-1]
    value, expected = np.zeros(places + 1), 1 / (1 - q)
    bar = np.zeros(places)
    for j in range(places):
        rest = max(1 - 2 * (1 - q) * value[j], 0.0)
        bar[j] = q * rest / (1 + math.sqrt(1 - q * q * rest))
        value[j + 1] = (1 - bar[j]) ** 2 / 2 / (1 - q)
    rows = [(bar, expected, value)]
    for h in reversed(law[:-1]):
        bar = h * np.diff(value)
        value = h * value
        value[1:] += (1 - bar) ** 2 / 2
        expected = 1 + h * expected
        rows.append((bar, expected, value))
    parts = zip(*rows[::-1], strict=True)
    return Thresholds(*(torch.from_numpy(np.array(part)) for part in parts))

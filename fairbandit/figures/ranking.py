"""Runs beside each other by all their metrics: values, intervals and ranks, and how to write them.

Nothing here draws; `comparison` does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairbandit import registry
from fairbandit.maths.moments import Floats
from fairbandit.results import PooledRuns, Scene

_RELATIVE, _ABSOLUTE = 1e-9, 1e-12  # how far apart values are that differ by rounding alone
_DIGITS = 5  # the most significant digits of a mean
_DECIMALS, _GREATEST = 4, 1e6  # numbers of more decimals or from here on have a power of ten


@dataclass(frozen=True)
class Ranking:
    """Some runs by all metrics after the last round.

    Attributes:
        runs: the R runs, those of policies that know the truth after the others.
        ranked: how many runs come first, whose policies do not know the truth.
        columns: the C metrics of which some run knows the value, the regrets first.
        unknown: the other metrics.
        lower: whether lower is better, for each of the C metrics.
        mean: the means over replicas, (R, C); NaN where the value is not known.
        half: half of the lengths of their confidence intervals, (R, C); NaN where not known.
        standing: the rank among the ranked runs with the same number of rounds, from 0 for the best
            to 1 for the worst, (R, C); equal values have one rank, and different ranks lie at equal
            distances. NaN where the run is not ranked or its value not known.
    """

    runs: tuple[PooledRuns, ...]
    ranked: int
    columns: tuple[str, ...]
    unknown: tuple[str, ...]
    lower: tuple[bool, ...]
    mean: Floats
    half: Floats
    standing: Floats


def rank(scene: Scene) -> Ranking:
    """Ranks the runs of a scene by each metric.

    Raises:
        FairbanditError: a part of a policy is not registered, so that nobody can say whether it
            knows the truth.
    """
    unaided = [run for run in scene.runs if not knows_truth(run)]
    runs = (*unaided, *(run for run in scene.runs if knows_truth(run)))
    found = {column: [run.metrics.get(column, {}) for run in runs] for column in scene.metrics}
    known = [
        column for column, ends in found.items() if any(end.get("mean") is not None for end in ends)
    ]

    def numbers(part: str) -> Floats:
        values = [[end.get(part) for end in found[column]] for column in known]
        return np.array(values, np.float64).reshape(len(known), len(runs)).T

    mean, standing = numbers("mean"), np.full((len(runs), len(known)), np.nan)
    lower = [next(end["lower_is_better"] for end in found[column] if end) for column in known]
    for rounds in {run.rounds for run in unaided}:
        rows = [place for place, run in enumerate(unaided) if run.rounds == rounds]
        for at, ascending in enumerate(lower):
            standing[rows, at] = standings(mean[rows, at] * (1 if ascending else -1))
    return Ranking(
        runs=runs,
        ranked=len(unaided),
        columns=tuple(known),
        unknown=tuple(column for column in found if column not in known),
        lower=tuple(lower),
        mean=mean,
        half=(numbers("high") - numbers("low")) / 2,
        standing=standing,
    )


def knows_truth(run: PooledRuns) -> bool:
    """Whether a part of the run's policy reads the truth.

    Raises:
        FairbanditError: a part is not registered.
    """
    keys = [(kind, f"policy.{kind}.name") for kind in registry.PART_KINDS]
    parts = [(kind, str(run.settings[key])) for kind, key in keys if key in run.settings]
    return any(registry.lookup(kind, name).needs_truth for kind, name in parts)


def standings(values: Sequence[float] | Floats) -> Floats:
    """Returns the ranks of values, 0 the lowest and 1 the greatest, at equal distances.

    Values that differ by rounding alone have the same rank. NaN has none.

    >>> standings([3.0, 1.0, 1.0, 2.0, float("nan")]).tolist()
    [1.0, 0.0, 0.0, 0.5, nan]
    """
    given = np.asarray(values, np.float64)
    order = np.argsort(given)[: np.count_nonzero(~np.isnan(given))]
    ranks, below = np.full(len(given), np.nan), given[order]
    steps = ~np.isclose(below[1:], below[:-1], rtol=_RELATIVE, atol=_ABSOLUTE)
    ranks[order] = np.concatenate([[0], steps.cumsum()])[: len(order)]
    return ranks / max(steps.sum(), 1)


def written(mean: float, half: float) -> tuple[str, str]:
    """Writes a mean and half of its interval, which is rounded to two digits, and so is the mean.

    A mean has two digits or more where up to two further decimals make them. A mean that is not
    known is a dash; half of an interval that is not known is nothing.

    >>> written(1234.56, 7.891), written(512.3, 1600.0), written(2.5, 0.0)
    (('1,234.6', '±7.9'), ('510', '±1,600'), ('2.5', '±0'))
    """
    if math.isnan(mean):
        return "–", ""
    constant = half <= max(_RELATIVE * abs(mean), _ABSOLUTE)
    if constant or math.isnan(half):
        text = _number(mean, 3 - _power(mean))
        whole = "." not in text or "e" in text
        return text if whole else text.rstrip("0").rstrip("."), "±0" if constant else ""
    decimals = 1 - _power(half)
    longer = max(decimals, min(1 - _power(mean), decimals + 2))
    return _number(mean, min(longer, _DIGITS - 1 - _power(mean))), f"±{_number(half, decimals)}"


def _number(value: float, decimals: int) -> str:
    """Writes a number rounded to some decimals, or with a power of ten if that is too long."""
    if value != 0 and (decimals > _DECIMALS or abs(value) >= _GREATEST):
        mantissa, _, exponent = f"{value:.2e}".partition("e")
        text = f"{mantissa}e{int(exponent)}"
    else:
        rounded = round(value, decimals) + 0.0  # no negative zero
        text = f"{rounded:,.{min(max(decimals, 0), _DECIMALS)}f}"
    return text.replace("-", "\N{MINUS SIGN}")


def _power(value: float) -> int:
    """The power of ten of a number's first digit; 0 for 0."""
    return math.floor(math.log10(abs(value))) if value else 0

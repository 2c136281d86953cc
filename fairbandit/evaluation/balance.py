"""A test of logged propensities by the features of the picks.

Let S be the m picks of a decision from a pool of candidates with the inclusion probabilities p, and
f a function of a candidate. If the probabilities are right, then, given the pool and the past,

    D = Σ_{a ∈ S} c(a),   c = f − Σ pf / Σ p,   has the mean 0 and |D| ≤ b = m·max |c|.

Where rounding may have moved each p by a unit u, the mean is within r = u·Σ|c|. So for both signs
ξ = (±D − r)/(b + r) has a mean of at most 0 and is at least −1, for every scale of f, and the
wealth exp(λ Σ ξ − ψ(λ) Σ ξ²) is a supermartingale for each stake λ; see `betting.lower_end`. The
mean of the wealth over all functions, signs and stakes is one, too, and exceeds 10,000 in at most
one of 10,000 logs (Ville). It needs the sums of ξ and ξ² alone.

The functions are each feature, the square of its deviation from its mean in the log, the deviation
among the candidates of each group and 0 among others, and the indicator of each group.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from weakref import WeakKeyDictionary

import numpy as np

from fairbandit.evaluation.betting import STAKES
from fairbandit.logs import Floats, Log
from fairbandit.tables.labels import normal

Balance = Mapping[str, Floats]
"""For each function by name, the sums of D, and of ξ and ξ² for +D and for −D, (5,)."""


_SUMS = WeakKeyDictionary[Log, Balance]()
"""The sums of the logs in use, since all policies that are judged by a log share them."""


def balance(log: Log, p: Floats | None, unit: float) -> Balance:
    """Returns the sums of a log; none without contexts or p, or if nothing was left to chance.

    The probabilities p and the `unit`, by which rounding may have moved them, are functions of it.
    """
    if p is None or log.contexts is None or not ((p > 0) & (p < 1)).any():
        return {}
    if log not in _SUMS:
        _SUMS[log] = _sums(log, log.contexts, p, unit)
    return _SUMS[log]


def _sums(log: Log, x: Floats, p: Floats, unit: float) -> Balance:
    if np.allclose(p, (log.slots / log.sizes)[log.decisions], rtol=0, atol=1e-12):
        unit = 0.0  # 1/K in all pools is exact, however few digits it has
    weights = (p / log.sums(p)[log.decisions])[:, None]
    filled, slots = (log.picks >= 0)[..., None], log.slots[:, None]
    sums = dict[str, Floats]()
    for names, f in _functions(log, x):
        c = f - log.sums(weights * f)[log.decisions]
        difference = (log.at_picks(c) * filled).sum(1)
        size = np.abs(c)
        bound = np.maximum.reduceat(size, log.starts) * slots
        rounding = unit * log.sums(size) if unit else np.zeros_like(bound)
        # no bets where values are equal up to rounding, or where rounding may explain D
        equal = bound <= 1e-12 * np.abs(f).max(0)
        scale = np.where(equal | (rounding >= bound), np.inf, bound + rounding)
        parts = [difference.sum(0)]
        for signed in (difference, -difference):
            xi = (signed - rounding) / scale
            parts += [xi.sum(0), (xi**2).sum(0)]
        sums |= dict(zip(names, np.stack(parts, 1), strict=True))
    return sums


def _functions(log: Log, x: Floats) -> Iterator[tuple[list[str], Floats]]:
    names, deviation = [repr(name) for name in log.features], x - x.mean(0)
    yield names, deviation
    yield [f"the squared deviation of {name}" for name in names], deviation**2
    groups, labels = log.groups, [normal(label) for label in log.labels]
    if len(labels) > 1:
        members = groups[:, None] == np.arange(len(labels))
        yield [f"the indicator of group {label}" for label in labels], members + 0.0
        for label, own in zip(labels, members.T, strict=True):
            yield [f"{name} in group {label}" for name in names], deviation * own[:, None]


def imbalance(sums: Balance) -> tuple[str, float] | None:
    """Returns the function with the largest wealth and its sum of D, if the test rejects."""
    if not sums:
        return None
    difference, *bets = np.stack([*sums.values()], 1)[..., None]
    growth = np.log1p(-STAKES) + STAKES
    wealth = [STAKES * xi + growth * squares for xi, squares in (bets[:2], bets[2:])]
    by_function = np.logaddexp.reduce(np.concatenate(wealth, 1), axis=1)
    number = len(sums) * 2 * len(STAKES)
    if np.logaddexp.reduce(by_function) - math.log(number) <= math.log(1e4):
        return None
    at = int(by_function.argmax())
    return [*sums][at], float(difference[at, 0])

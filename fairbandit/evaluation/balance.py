"""Tests of logged propensities, by the mean weight and by the features of the picks.

If propensities are right, the mean weight w = π/p is 1 for each policy, and so for one that picks
uniformly among the candidates with support. The wealth of a gambler who bets against a mean of 1
exceeds 40,000 in at most one of 40,000 logs (Ville).

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
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from fairbandit.evaluation.betting import STAKES
from fairbandit.logs import Floats, Ints, Log
from fairbandit.logs.tables import rounding_unit
from fairbandit.tables.labels import normal

MOST_ROUNDED = 0.05
"""The largest relative shift of a mean weight that the rounding of propensities may explain."""

WRONG = (
    "propensities are wrong, have too few digits or stand beside other candidates, or rewards are "
    "missing more often for some picks than for others"
)

Balance = Mapping[str, Floats]
"""For each function by name, the sums of D, and of ξ and ξ² for +D and for −D, (5,)."""


def uniform(log: Log) -> Floats:
    """Returns the probability of each candidate if picks are uniform, (R,)."""
    return np.asarray((log.slots / log.sizes)[log.decisions])


def weighted_picks(
    log: Log, chances: Floats
) -> tuple[NDArray[np.bool_], Floats, Floats, Floats, Ints]:
    """Returns whether the rewards and propensities of each decision are known, and their picks.

    These are, each (n, m) and 0 in empty slots, the weights π/p (times m over the number of picks,
    if that is smaller), rewards, 1/p, and groups.
    """
    filled = log.picks >= 0
    rewards = np.where(filled, log.rewards, 0.0)
    references = np.where(filled, 1 / log.propensities, 0.0)
    known = np.asarray(~np.isnan(rewards + references).any(axis=1))
    weights = log.at_picks(chances) * references * (filled.shape[1] / filled.sum(1, keepdims=True))
    groups = log.at_picks(log.groups)
    return known, weights[known], rewards[known], references[known], groups[known]


class Tested(NamedTuple):
    """What the propensities of a log are, for all policies.

    Attributes:
        p: the probability of each candidate, (R,), which uniform picks show; None if unknown.
        rounding: how far the rounding of propensities may move a mean weight.
        refused: a reason to refuse all weighted estimates of the log, or "".
        uneven, unbalanced: a reason to take propensities for wrong, by the mean weight of uniform
            picks and by functions of the picks, or "".
    """

    p: Floats | None
    rounding: float
    refused: str
    uneven: str
    unbalanced: str


_TESTED = WeakKeyDictionary[Log, Tested]()
"""The logs in use, since all policies that are judged by a log share its tests."""


def tested(log: Log) -> Tested:
    """Returns what holds for the propensities of a log."""
    if log in _TESTED:
        return _TESTED[log]
    p, alike, unit = log.probabilities, uniform(log), rounding_unit(log.propensities)
    off = np.abs(log.propensities - log.at_picks(alike))[log.picks >= 0]
    if p is None and off.max(initial=0.0) <= unit + 1e-12:
        p = alike  # the picks are consistent with it
    if p is not None:
        alike = (p > 0) * (log.slots / log.sums(p > 0))[log.decisions]
    refused = "the log lacks propensities" if np.isnan(log.propensities[:, 0]).any() else ""
    if log.draws_models:
        refused = "the logged probabilities are conditional on a draw of the model"
    _, weights, _, references, _ = weighted_picks(log, alike)
    even, uneven, unbalanced = weights.mean(1), "", ""
    rounding = unit * float((weights * references).mean() if weights.size else 0)
    rounding = min(rounding, MOST_ROUNDED)
    if any(rejected(log, alike, p, rounding)):
        mean = even.sum() / len(even)
        uneven = "the mean of 1/(K·p) over the picks from pools of K is "
        uneven += f"{mean:.3f} and should be 1: {WRONG}"
    if found := imbalance(balance(log, p, unit)):
        name, difference = found
        unbalanced = f"picks have another mean of {name} than their probabilities say, "
        unbalanced += f"by {difference / max(len(even), 2):.3g}: {WRONG}"
    _TESTED[log] = Tested(p, rounding, refused, uneven, unbalanced)
    return _TESTED[log]


def rejected(log: Log, chances: Floats, p: Floats | None, rounding: float) -> tuple[bool, bool]:
    """Whether the picks refute that the mean weight of a policy is at most 1, and at least 1.

    For `p` and `rounding`, see `Tested`.
    """
    known, weights, *_ = weighted_picks(log, chances)
    w, bound = weights.mean(1), np.full(len(log), math.inf)
    if p is not None:
        ratios = np.where(p > 0, chances, 0.0) / np.where(p > 0, p, 1.0)
        bound = np.maximum.reduceat(ratios.clip(min=1.0), log.starts)
    bets = w - 1 - rounding, (1 - w - rounding) / bound[known]
    wealth = np.array([np.log1p(STAKES[:, None] * bet).sum(1) for bet in bets])
    above, below = np.logaddexp.reduce(wealth, axis=1) - math.log(len(STAKES)) > math.log(4e4)
    return bool(above), bool(below)


def balance(log: Log, p: Floats | None, unit: float) -> Balance:
    """Returns the sums of a log; none without contexts or p, or if nothing was left to chance.

    Rounding may have moved the probabilities p by the `unit`.
    """
    if p is None or (x := log.contexts) is None or not ((p > 0) & (p < 1)).any():
        return {}
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

"""Bets against a mean, whose winnings refute it after any number of observations.

They give intervals that hold at all times, and test logged propensities. If these are right, the
mean weight w = π/p is 1 for each policy, and so for one that picks uniformly among the candidates
with support. The wealth of a gambler who bets against a mean of 1 exceeds 40,000 in at most one of
40,000 logs (Ville).

Let S be the m picks of a decision from a pool of candidates with the inclusion probabilities p, and
f a function of a candidate. If the probabilities are right, then, given the pool and the past,

    D = Σ_{a ∈ S} c(a),   c = f − Σ pf / Σ p,   has the mean 0 and |D| ≤ b = m·max |c|.

Where rounding may have moved each p by a unit u, the mean is within r = u·Σ|c|. So for both signs
ξ = (±D − r)/(b + r) has a mean of at most 0 and is at least −1, for every scale of f, and the
wealth exp(λ Σ ξ − ψ(λ) Σ ξ²) is a supermartingale for each stake λ; see `lower_end`. The
mean of the wealth over all functions, signs and stakes is one, too, and exceeds 10,000 in at most
one of 10,000 logs (Ville).

The functions are each feature, the square of its deviation from its mean in the log, the deviation
among the candidates of each group and 0 among others, and the indicator of each group.

References: Fan, Grama and Liu, "Exponential inequalities for martingales with applications", EJP
2015; Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", JRSS B
2024; Karampatziakis et al., "Off-policy confidence sequences", ICML 2021.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from fairbandit.errors import FairbanditError
from fairbandit.logs import Floats, Ints, Log
from fairbandit.logs.tables import rounding_unit
from fairbandit.runs.intervals import Span
from fairbandit.tables.labels import normal

STAKES = np.geomspace(3e-3, 0.94, 10)  # the shares of wealth that gamblers bet on each decision

BETS, CENTRES = np.meshgrid(np.geomspace(1e-4, 0.5, 24), np.linspace(0, 1, 5))
"""The bets λ and the centres c of `lower_end`."""

MOST_ROUNDED = 0.05
"""The largest relative shift of a mean weight that the rounding of propensities may explain."""

WRONG = (
    "propensities are wrong, have too few digits or stand beside other candidates, or rewards are "
    "missing more often for some picks than for others"
)


def uniform(log: Log) -> Floats:
    """Returns the probability of each candidate if picks are uniform, (R,)."""
    return np.asarray((log.slots / log.sizes)[log.decisions])


def weighted_picks(
    log: Log, chances: Floats
) -> tuple[NDArray[np.bool_], Floats, Floats, Floats, Ints]:
    """Returns where rewards and propensities are known; there, weights, rewards, 1/p and groups.

    Each is (n, m), and 0 in empty slots. The weights are π/p, times m over the number of picks.
    """
    filled = log.picks >= 0
    rewards = np.where(filled, log.rewards, 0.0)
    references = np.where(filled, 1 / log.propensities, 0.0)
    is_known = np.asarray(~np.isnan(rewards + references).any(axis=1))
    weights = log.at_picks(chances) * references * (filled.shape[1] / filled.sum(1, keepdims=True))
    groups = log.at_picks(log.groups)
    return is_known, weights[is_known], rewards[is_known], references[is_known], groups[is_known]


def check_squares(squares: Floats | float) -> None:
    """Raises an error if squares of rewards or weights overflow."""
    if not np.isfinite(squares).all():
        raise FairbanditError("the log has rewards or weights too large to be squared")


class Tested(NamedTuple):
    """Facts about the propensities of a log; each text is a reason, or ""."""

    p: Floats | None  # the probability of each candidate, (R,), which uniform picks show, too
    rounding: float  # how far the rounding of propensities may move a mean weight
    refused: str  # why all weighted estimates of the log are refused
    uneven: str  # why propensities are wrong, by the mean weight of uniform picks
    unbalanced: str  # and by functions of the picks


_TESTED = WeakKeyDictionary[Log, Tested]()


def tested(log: Log) -> Tested:
    """Returns what holds for the propensities of a log; all policies share its tests."""
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
    with np.errstate(over="ignore"):
        squares = float((weights * references).mean() if weights.size else 0)
    check_squares(squares)
    rounding = min(unit * squares, MOST_ROUNDED)
    if any(rejected(log, alike, p, rounding)):
        mean = even.sum() / len(even)
        uneven = f"the mean of 1/(K·p) over the picks from pools of K is {mean:.3f} and should "
        uneven += f"be 1: {WRONG}"
    if worst := imbalance(balance(log, p, unit)):
        name, difference = worst
        unbalanced = f"picks have another mean of {name} than their probabilities say, "
        unbalanced += f"by {difference / max(len(even), 2):.3g}: {WRONG}"
    _TESTED[log] = Tested(p, rounding, refused, uneven, unbalanced)
    return _TESTED[log]


def rejected(log: Log, chances: Floats, p: Floats | None, rounding: float) -> tuple[bool, bool]:
    """Whether the picks refute that the mean weight of a policy is at most 1, and at least 1."""
    is_known, weights, *_ = weighted_picks(log, chances)
    w, bound = weights.mean(1), np.full(len(log), math.inf)
    if p is not None:
        ratios = np.where(p > 0, chances, 0.0) / np.where(p > 0, p, 1.0)
        bound = np.maximum.reduceat(ratios.clip(min=1.0), log.starts)
    bets = w - 1 - rounding, (1 - w - rounding) / bound[is_known]
    wealth = np.array([np.log1p(STAKES[:, None] * bet).sum(1) for bet in bets])
    above, below = np.logaddexp.reduce(wealth, axis=1) - math.log(len(STAKES)) > math.log(4e4)
    return bool(above), bool(below)


def balance(log: Log, p: Floats | None, unit: float) -> dict[str, tuple[float, float]]:
    """Returns the sum of D, and the log of the mean wealth over signs and stakes, by function.

    It is empty without contexts or p, which may be off by a `unit`, or without chance.
    """
    if p is None or (x := log.contexts) is None or not ((p > 0) & (p < 1)).any():
        return {}
    if np.allclose(p, uniform(log), rtol=0, atol=1e-12):
        unit = 0.0  # 1/K in all pools is exact, however few digits it has
    weights, growth = (p / log.sums(p)[log.decisions])[:, None], np.log1p(-STAKES) + STAKES
    filled, slots = (log.picks >= 0)[..., None], log.slots[:, None]
    results = dict[str, tuple[float, float]]()
    for names, f in _functions(log, x):
        c = f - log.sums(weights * f)[log.decisions]
        difference = (log.at_picks(c) * filled).sum(1)
        size = np.abs(c)
        bound = np.maximum.reduceat(size, log.starts) * slots
        rounding = unit * log.sums(size) if unit else np.zeros_like(bound)
        # no bets where values are equal up to rounding, or where rounding may explain D
        equal = bound <= 1e-12 * np.abs(f).max(0)
        scale = np.where(equal | (rounding >= bound), np.inf, bound + rounding)
        bets = [(signed - rounding) / scale for signed in (difference, -difference)]
        sums = [(xi.sum(0)[:, None], (xi**2).sum(0)[:, None]) for xi in bets]
        wealth = np.hstack([STAKES * xi + growth * squares for xi, squares in sums])
        means = np.logaddexp.reduce(wealth, axis=1) - math.log(wealth.shape[1])
        pairs = zip(difference.sum(0).tolist(), means.tolist(), strict=True)
        results |= dict(zip(names, pairs, strict=True))
    return results


def _functions(log: Log, x: Floats) -> Iterator[tuple[list[str], Floats]]:
    names, deviation = [repr(name) for name in log.features], x - x.mean(0)
    yield names, deviation
    yield [f"the squared deviation of {name}" for name in names], deviation**2
    groups, labels = log.groups, [normal(label) for label in log.labels]
    if len(labels) > 1:
        members = groups[:, None] == np.arange(len(labels))
        yield [f"the indicator of group {label}" for label in labels], members + 0.0
        for label, member in zip(labels, members.T, strict=True):
            yield [f"{name} in group {label}" for name in names], deviation * member[:, None]


def imbalance(results: Mapping[str, tuple[float, float]]) -> tuple[str, float] | None:
    """Returns the function with the largest wealth and its sum of D, if the test rejects."""
    wealth = [logarithm for _, logarithm in results.values()]
    if not wealth or np.logaddexp.reduce(wealth) - math.log(len(wealth)) <= math.log(1e4):
        return None
    name = max(results, key=lambda name: results[name][1])
    return name, results[name][0]


def lower_end(n: int, mean: float, square: float, alpha: float) -> float:
    """Returns a lower bound of a mean in [0, 1], valid for all n with probability 1 − α.

    Let Z₁, Z₂, … ≥ 0 have the conditional means v₁, v₂, …, which may change. For a bet λ in [0, 1)
    and a centre c in [0, 1], with ψ(λ) = −ln(1 − λ) − λ, the wealth of a gambler

        W(λ, c) = exp(λ Σ (Zₜ − vₜ) − ψ(λ) Σ (Zₜ − c)²)

    is a supermartingale, since exp(λξ − ψ(λ)ξ²) ≤ 1 + λξ for ξ ≥ −1 (Fan, Grama and Liu). Its mean
    over λ and c ever exceeds 1/α with probability at most α (Ville), however large Z is. The bound
    is the least mean of v₁, …, vₙ for which it stays below 1/α. It depends on the means of Z and Z²
    alone.
    """
    spread = n * (square - 2 * CENTRES * mean + CENTRES**2)
    fixed = (np.log1p(-BETS) + BETS) * spread - math.log(BETS.size / alpha)
    low, high = 0.0, 1.0
    for _ in range(32):
        middle = (low + high) / 2
        exceeds = np.logaddexp.reduce(fixed + BETS * n * (mean - middle), axis=None) > 0
        low, high = (middle, high) if exceeds else (low, middle)
    return low


def reward_ends(
    n: int, mean: Floats, scatter: Floats, span: Span, share: float, confidence: float
) -> tuple[float, float]:
    """Returns the ends of an interval of the mean reward Σ wr / Σ w, valid for all n.

    The sums are `Moments` of wr, w, …; `share` is the mean of w, which is known.
    """
    # for r in [0, 1], E[w(1 − r)] is E[w] − E[wr]: each gives one end
    squares, ends = scatter / n + np.outer(mean, mean), list[float]()
    for start, stop in (span, span[::-1]):
        way = np.zeros(len(mean))
        way[:2] = 1 / (stop - start), -start / (stop - start)  # maps the range to [0, 1]
        end = lower_end(n, float(way @ mean), float(way @ squares @ way), (1 - confidence) / 2)
        ends.append(start + (stop - start) * min(end / share, 1.0))
    return ends[0], ends[1]

"""Tests that may be looked at every day: the wealth of gamblers who bet against a hypothesis.

Under the null hypothesis a wealth is a nonnegative supermartingale that begins at 1 (an e-process),
so that by Ville's inequality it ever reaches 1/α with probability at most α, however often anyone
looks and whenever they stop. Several groups share α: each is rejected at α/G.

References: Ville, "Étude critique de la notion de collectif", 1939; Vovk et al., "Retrain or not
retrain: conformal test martingales for change-point detection", COPA 2021 (the simple jumper);
Chugg et al., "Auditing fairness by betting", NeurIPS 2023.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fairbandit.evaluation.direct import LinearModel
from fairbandit.logs import Floats, Log

BETS = np.array([-1.0, 0.0, 1.0])
"""The jumper's bets, on large ranks, on nothing, and on small ones."""

JUMPS = (1e-3, 1e-2, 1e-1)
"""How probable it is that a jumper changes its bet; their wealths are averaged."""

FRACTIONS = np.geomspace(1e-3, 0.5, 16)
"""The fractions bet against parity, whose wealths are averaged."""

FIRST = 100
"""The first model is trained on so many decisions; it is trained anew each time they double."""


def drift(log: Log, group: int, seed: int = 0) -> Floats:
    """ln of the wealth against "the candidates of a group do not change", after each decision.

    A model of the mean reward is trained on the decisions so far and frozen. The rank of each new
    candidate among those of its group *since then*, made uniform by a random choice among ties, is
    independent of the ranks before it, as long as candidates are exchangeable. Among older ones,
    which the model was trained on, it would not be.

    Args:
        log: n decisions in the order in which they were made, with contexts.
        group: its number.
        seed: of the choices among ties.

    Returns:
        (n,); 0 until the first model is trained.
    """
    assert log.contexts is not None
    n, draws = len(log), np.random.default_rng([seed, group])
    found, wealth = np.zeros(n), _Jumper()
    start = FIRST
    while start < n:
        stop = min(2 * start, n)
        scores = LinearModel(log[:start]).scores(log.contexts[start:stop])
        here = log.groups[start:stop] == group
        at = np.nonzero(here)[0]
        ranks = sequential_ranks(scores[here], draws.random(len(at)))
        for decision in range(stop - start):
            for rank in ranks[
                np.searchsorted(at, decision) : np.searchsorted(at, decision, "right")
            ]:
                wealth.bet(rank)
            found[start + decision] = wealth.log_wealth
        start = stop
    return found


def sequential_ranks(values: Floats, uniforms: Floats) -> Floats:
    """The randomised rank of each value among those up to it, (n,), in [0, 1].

    Rank i is (number of values before i that are below it + u·(number equal to it, with
    itself))/i; of exchangeable values, ranks are independent and uniform.
    """
    import bisect

    before: list[float] = []
    ranks = np.empty_like(values)
    for i, (value, u) in enumerate(zip(values.tolist(), uniforms.tolist(), strict=True)):
        low = bisect.bisect_left(before, value)
        high = bisect.bisect_right(before, value, lo=low)
        ranks[i] = (low + u * (high - low + 1)) / (i + 1)
        before.insert(high, value)
    return ranks


class _Jumper:
    """The average wealth of jumpers: each bets 1 + b(rank − ½), and changes b now and then."""

    def __init__(self) -> None:
        self._wealth = np.full((len(JUMPS), len(BETS)), 1 / len(JUMPS) / len(BETS))
        self._scale = 0.0  # ln of what the wealth was divided by, since it may overflow

    @property
    def log_wealth(self) -> float:
        return float(np.log(self._wealth.sum())) + self._scale

    def bet(self, rank: float) -> None:
        jumps = np.array(JUMPS)[:, None]
        total = self._wealth.sum(1, keepdims=True)
        self._wealth = (1 - jumps) * self._wealth + jumps * total / len(BETS)
        self._wealth = self._wealth * (1 + BETS * (rank - 0.5))
        whole = self._wealth.sum()
        if not 1e-100 < whole < 1e100:
            self._wealth, self._scale = self._wealth / whole, self._scale + math.log(whole)


def disparity(selected: Floats, shares: Floats, epsilon: float) -> Floats:
    """ln of the wealth against parity of selection, after each decision.

    The null is that E[selected − share | past] lies in [−ε, ε] at every decision.

    Args:
        selected: the share of a decision's picks that is of the group, (n,).
        shares: the share of its candidates that is, (n,).
        epsilon: ε, at least 0.

    Returns:
        (n,).
    """
    difference = selected - shares
    sides = [
        np.log1p(fraction * (sign * difference - epsilon)).cumsum()
        for sign in (1, -1)
        for fraction in FRACTIONS / (1 + epsilon)
    ]
    wealth: Floats = np.logaddexp.reduce(sides, axis=0) - math.log(len(sides))
    return wealth


def first_above(log_wealth: NDArray[np.float64], alpha: float) -> int | None:
    """The first decision, from 1, after which the wealth is at least 1/α; None if there is none."""
    above = log_wealth >= math.log(1 / alpha)
    return int(above.argmax()) + 1 if above.any() else None

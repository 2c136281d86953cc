"""Anytime-valid tests by betting: the wealth of gamblers who bet against a hypothesis.

Under the hypothesis, the wealth is a nonnegative supermartingale that begins at 1. By Ville's
inequality it ever reaches 1/α with probability at most α, so the tests may be monitored and stopped
at any time. G groups share α: each is rejected at α/G.

References: Ville, "Étude critique de la notion de collectif", 1939; Vovk et al., "Retrain or not
retrain: conformal test martingales for change-point detection", COPA 2021 (the simple jumper);
Chugg et al., "Auditing fairness by betting", NeurIPS 2023.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fairbandit.agent.inputs import number, whole
from fairbandit.errors import FairbanditError
from fairbandit.evaluation.direct import RewardFit
from fairbandit.evaluation.estimates import checked_confidence
from fairbandit.logs import Floats, Ints, Log

if TYPE_CHECKING:
    import pandas as pd

BETS = np.array([-1.0, 0.0, 1.0])
"""Bets b on a rank, with the factor 1 + b(rank − ½)."""

FRACTIONS = np.array([-0.6, -0.2, -0.06, -0.02, 0.0, 0.02, 0.06, 0.2, 0.6])
"""Bets λ against differences, divided by 1 + ε for parity up to ε."""

FIRST_FREEZES = (100, 150)
"""The numbers of decisions after which the two gamblers freeze their first models."""

_RANKS_AT_ONCE = 1024

POWERS = (0.8, 0.9)
"""The probabilities with which the gap is to be seen."""

LOGS = 1_000
"""The number of simulated logs for the decisions needed, and of further logs for the check."""

MOST_DECISIONS = 100_000
"""The largest number of decisions that is simulated."""


def wealth(factors: Floats) -> Floats:
    """Returns the log wealth of a gambler who moves between bets, after 0 … n steps, (n + 1,).

    The money is divided equally among the S bets. At step t a share 1/(t + 1) of it is divided
    again, so the number of steps needed to detect a change at step t grows like ln t, not like t.

    The factors by which bets multiply their money, (n, S), are above 0, and under the hypothesis at
    most 1 on average.

    >>> np.exp(wealth(np.array([[0.5, 1.5], [0.5, 1.5]]))).round(3).tolist()
    [1.0, 1.0, 1.167]
    """
    bets = factors.shape[1]
    money, growth = [1 / bets] * bets, [1.0]
    for t, row in enumerate(factors.tolist(), 1):
        stay, share = t / (t + 1), 1 / (t + 1) / bets
        money = [(stay * held + share) * factor for held, factor in zip(money, row, strict=True)]
        growth.append(sum(money))
        money = [held / growth[-1] for held in money]
    return np.log(growth).cumsum()


def drift(log: Log, groups: Ints, labels: Sequence[Hashable], seed: int = 0) -> Floats:
    """Returns the log wealth, (G, n), against a constant distribution of each group's candidates.

    A model of the mean reward is trained on the decisions so far and frozen, and again whenever
    their number doubles. Each pool gives one score for each group: the sum of the scores of the
    largest number 2^j of the group's candidates, who are drawn at random. If pools are exchangeable
    over time, the rank of a new score among the scores of the group with the same j *since the
    freeze* is uniform and independent of earlier ranks, however the candidates of a pool depend on
    each other. Sums of equally many candidates do not change with the sizes of pools. Ranks of
    several candidates of a pool would not be independent, and ranks among the training candidates
    are not uniform.

    After a change just before a freeze, there are no earlier candidates to compare with. So two
    gamblers, each with half of the money, freeze at different times. Their filtrations differ, so
    their sum is not a martingale, but their maximum reaches 1/α with probability at most α (union
    bound).

    Args:
        log: n decisions with contexts, in the order in which they were made.
        groups, labels: each candidate's group, (R,); the names of the G groups.
        seed: the seed of the draws within pools, and of the choices among ties.
    """
    n, largest = len(log), np.full((len(labels), len(log)), -np.inf)
    for first in FIRST_FREEZES:
        freezes, scores = _frozen(log, first)
        for group, label in enumerate(labels):
            here = (groups == group) & (log.decisions >= first)
            rows, values = log.decisions[here], scores[here]
            # a draw for each candidate, so that later decisions do not change earlier wealth
            draws = np.random.default_rng([seed, first, *str(label).encode()])
            order, ties = draws.random((len(rows), 2)).T
            pools, starts, counts = np.unique(rows, return_index=True, return_counts=True)
            levels = np.log2(counts).astype(np.int64)
            pool = np.repeat(np.arange(len(pools)), counts)
            drawn = np.arange(len(rows)) - starts[pool] < 2 ** levels[pool]
            sums = np.bincount(pool[drawn], values[np.lexsort((order, rows))][drawn], len(pools))
            keys = 64 * np.searchsorted(freezes, pools, "right") + levels  # no level reaches 64
            ranks = np.empty(len(pools))
            for key in np.unique(keys):
                same = keys == key
                ranks[same] = sequential_ranks(sums[same], ties[starts[same]])
            by_pool = wealth(1 + np.outer(ranks - 0.5, BETS))
            by_decision = by_pool[np.searchsorted(pools, np.arange(n), "right")]
            largest[group] = np.maximum(largest[group], by_decision)
    return largest - math.log(len(FIRST_FREEZES))


def arrival(log: Log, groups: Ints, labels: Sequence[Hashable]) -> Floats:
    """Returns the log wealth, (G, n), against an order of arrival that says nothing of quality.

    The places of a decision are in order of arrival. The k ≥ 2 candidates of a group in a pool are
    ranked from 0 to 1 by the scores of a model that is frozen as for `drift`. D is the mean rank of
    the first ⌊k/2⌋ candidates minus the mean rank of the last ⌊k/2⌋. If all orders of a pool's
    candidates have the same probability, E[D | past] = 0. Bets have the factors 1 + λD, and skip a
    candidate without others of its group. For the arguments, see `drift`.
    """
    first, (_, scores) = FIRST_FREEZES[0], _frozen(log, FIRST_FREEZES[0])
    result = np.zeros((len(labels), len(log)))
    for group in range(len(labels)):
        here = (groups == group) & (log.decisions >= first)
        decisions, starts = np.unique(log.decisions[here], return_index=True)
        several, factors = np.zeros(len(log), np.int64), list[Floats]()
        for decision, part in zip(decisions, np.split(scores[here], starts)[1:], strict=True):
            if half := len(part) // 2:
                below = (part < part[:, None]).sum(1) + ((part == part[:, None]).sum(1) - 1) / 2
                ranks = below / (len(part) - 1)
                factors.append(1 + FRACTIONS * (ranks[:half].mean() - ranks[-half:].mean()))
                several[decision] = 1
        result[group] = wealth(np.array(factors).reshape(-1, len(FRACTIONS)))[several.cumsum()]
    return result


def _frozen(log: Log, first: int) -> tuple[list[int], Floats]:
    """The numbers of decisions after which a model is frozen, and each candidate's score, (R,).

    Scores are by the model of the last freeze, and 0 before the first.
    """
    x, edges = log.contexts, np.append(log.starts, len(log.decisions))
    assert x is not None
    n, scores = len(log), np.zeros(len(log.decisions))
    freezes = [first << i for i in range(n.bit_length()) if first << i < n]
    for start, stop in zip(freezes, [*freezes[1:], n], strict=False):
        piece = slice(edges[start], edges[stop])
        scores[piece] = RewardFit(log[:start]).scores(x[piece])
    return freezes, scores


def sequential_ranks(values: Floats, uniforms: Floats) -> Floats:
    """Returns the randomised rank of each value among the values up to it, (n,), in [0, 1].

    Rank i is (number of smaller values before i + u·(number of equal values up to i, including
    itself))/i. The ranks of exchangeable values are independent and uniform.

    >>> sequential_ranks(np.array([3.0, 1.0, 3.0]), np.full(3, 0.5)).round(3).tolist()
    [0.5, 0.25, 0.667]
    """
    ranks, before = np.empty_like(values), values[:0]
    for low in range(0, len(values), _RANKS_AT_ONCE):
        new, u = values[low : low + _RANKS_AT_ONCE], uniforms[low : low + _RANKS_AT_ONCE]
        earlier = np.tri(len(new), k=-1, dtype=np.bool_)
        left, right = (np.searchsorted(before, new, side) for side in ("left", "right"))
        below = left + (earlier & (new < new[:, None])).sum(1)
        equal = right - left + (earlier & (new == new[:, None])).sum(1) + 1
        ranks[low : low + _RANKS_AT_ONCE] = (below + u * equal) / (low + np.arange(1, len(new) + 1))
        before = np.sort(np.concatenate([before, new]), kind="stable")
    return ranks


def disparity(log: Log, groups: Ints, labels: Sequence[Hashable], epsilon: float) -> Floats:
    """Returns the log wealth, (G, n), against parity of selection up to ε in [0, 1).

    Let D be a group's share of a decision's picks minus its share of the candidates. A decision has
    a choice if its pool contains candidates of the group, other candidates, and more candidates
    than are picked. The hypothesis is that E[D | past] ∈ [−ε, ε] at each decision with a choice.
    Bets have the factors 1 + λ(±D − ε), and skip other decisions. For the arguments, see `drift`.
    """
    result, bets = np.zeros((len(labels), len(log))), FRACTIONS / (1 + epsilon)
    for group in range(len(labels)):
        difference, bet = differences(log, groups == group)
        by_bet = wealth(1 + np.outer(difference[bet], bets) - epsilon * np.abs(bets))
        result[group] = by_bet[bet.cumsum()]
    return result


def differences(log: Log, here: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.bool_]]:
    """Returns D of a group whose candidates are `here`, (R,), and the decisions with a choice."""
    share = log.sums(here) / log.sizes
    choice = (share > 0) & (share < 1) & (log.slots < log.sizes)
    return log.sums(here & log.picked) / log.slots - share, choice


def plan(
    *, epsilon: float, share: float = 0.5, confidence: float = 0.95, seed: int = 0
) -> pd.DataFrame:
    """Finds how many decisions the test of parity needs to see a gap between two groups.

    One of two groups has the same share of the candidates in each pool, and one candidate is
    picked, of this group with probability share − ε. The test of parity with ε = 0 (`disparity`)
    rejects it when the wealth of its gambler reaches 2/(1 − confidence). The number of decisions
    for a power is the smallest after which that share of simulated logs is rejected; fresh logs
    check it.

    Args:
        epsilon: the gap ε, the group's share of the candidates less its share of the picks.
        share: the group's share of the candidates, from ε to 1.
        confidence: the confidence of the test over both groups.
        seed: the seed of the simulated logs.

    Returns:
        A row for each of `POWERS`: `power`, `decisions`, and `checked`, the share of the fresh logs
        that are rejected by then.

    Raises:
        FairbanditError: a value is out of range, or more than 100,000 decisions are needed.
    """
    import pandas as pd

    error, seed = 1 - checked_confidence(confidence), whole(seed, "seed")
    epsilon, share = number(epsilon, "epsilon"), number(share, "share")
    if not 0 < epsilon <= share < 1:
        raise FairbanditError(
            f"expected 0 < epsilon <= share < 1, got epsilon={epsilon:g} and share={share:g}"
        )
    draws = np.random.default_rng(seed)
    times = [rejections(epsilon, share, error, draws) for _ in range(2)]
    needed = [int(np.quantile(times[0], power, method="higher")) for power in POWERS]
    if needed[-1] > MOST_DECISIONS:
        raise FairbanditError(
            f"epsilon={epsilon:g}: more than {MOST_DECISIONS:,} decisions are needed; plan for a "
            "larger gap"
        )
    checked = [float((times[1] <= n).mean()) for n in needed]
    return pd.DataFrame({"power": POWERS, "decisions": needed, "checked": checked})


def rejections(epsilon: float, share: float, error: float, draws: np.random.Generator) -> Ints:
    """Returns after how many decisions each of `LOGS` logs is rejected, or `MOST_DECISIONS` + 1."""
    bets, total = len(FRACTIONS), np.zeros(LOGS)
    rejected = np.full(LOGS, MOST_DECISIONS + 1)
    money: Floats = np.full((LOGS, bets), 1 / bets)  # as in `wealth`, of all logs at once
    for t in range(1, MOST_DECISIONS + 1):
        difference = (draws.random(LOGS) < share - epsilon) - share
        money = (t / (t + 1) * money + 1 / (t + 1) / bets) * (1 + difference[:, None] * FRACTIONS)
        growth = money.sum(1)
        money /= growth[:, None]
        total += np.log(growth)
        rejected = np.where(
            (rejected > MOST_DECISIONS) & (total >= math.log(2 / error)), t, rejected
        )
        if (rejected <= MOST_DECISIONS).mean() > 0.99:  # later rejections change no power
            break
    return rejected

"""How many decisions an audit needs to see a gap between two groups, by simulation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fairbandit.agent.inputs import number, whole
from fairbandit.audit.processes import FRACTIONS
from fairbandit.errors import FairbanditError
from fairbandit.evaluation.estimates import checked_confidence
from fairbandit.logs import Floats, Ints

if TYPE_CHECKING:
    import pandas as pd

POWERS = (0.8, 0.9)
"""The probabilities with which the gap is to be seen."""

LOGS = 1_000
"""The number of simulated logs for the decisions needed, and of further logs for the check."""

MOST = 100_000
"""The largest number of decisions that is simulated."""


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
    if needed[-1] > MOST:
        raise FairbanditError(
            f"epsilon={epsilon:g}: more than {MOST:,} decisions are needed; plan for a larger gap"
        )
    checked = [float((times[1] <= n).mean()) for n in needed]
    return pd.DataFrame({"power": POWERS, "decisions": needed, "checked": checked})


def rejections(epsilon: float, share: float, error: float, draws: np.random.Generator) -> Ints:
    """Returns after how many decisions each of `LOGS` logs is rejected; `MOST` + 1 for later.

    The wealth is `processes.wealth` of all logs at once.
    """
    bets = len(FRACTIONS)
    money: Floats = np.full((LOGS, bets), 1 / bets)
    total, found = np.zeros(LOGS), np.full(LOGS, MOST + 1)
    for t in range(1, MOST + 1):
        difference = (draws.random(LOGS) < share - epsilon) - share
        money = (t / (t + 1) * money + 1 / (t + 1) / bets) * (1 + difference[:, None] * FRACTIONS)
        growth = money.sum(1)
        money /= growth[:, None]
        total += np.log(growth)
        found = np.where((found > MOST) & (total >= math.log(2 / error)), t, found)
        if (found <= MOST).mean() > 0.99:  # later rejections change no power
            break
    return found

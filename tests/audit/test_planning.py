"""The decisions that an audit needs: against the test's own wealth, and against chance."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from fairbandit import FairbanditError
from fairbandit.audit.processes import FRACTIONS, LOGS, plan, rejections, wealth
from fairbandit.cli.logs import audit


def test_rejections_are_those_of_the_test_itself():
    found = rejections(0.2, 0.5, 0.05, np.random.default_rng(3))
    draws, n = np.random.default_rng(3), int(found[found < 10**4].max())
    drawn = np.array([draws.random(LOGS) for _ in range(n)])
    for log in range(0, LOGS, 100):
        growth = wealth(1 + np.outer((drawn[:, log] < 0.3) - 0.5, FRACTIONS))
        reached = np.flatnonzero(growth >= math.log(2 / 0.05))
        assert found[log] == (reached[0] if len(reached) else found[log])


def test_fresh_logs_confirm_the_power(capsys):
    """The checked share differs from the power by chance: by more with a probability of 1e-6."""
    table = plan(epsilon=0.15)
    assert table.decisions.is_monotonic_increasing
    for row in table.itertuples():
        low, high = binom.interval(1 - 1e-6, LOGS, row.power)
        spread = 2**0.5  # the number of decisions is uncertain, too
        assert abs(row.checked - row.power) < spread * (high - low) / 2 / LOGS
    assert plan(epsilon=0.3).decisions[0] < table.decisions[0]
    audit(["--plan", "epsilon=0.15"])
    assert f"{table.decisions[0]:,}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words", ["epsilon=0", "epsilon=0.6", "share=0.2", "log.csv epsilon=0.1", "epsilon=0.1 gap=2"]
)
def test_what_cannot_be_planned(words):
    with pytest.raises(FairbanditError, match=r"epsilon|log\.csv: expected KEY=VALUE"):
        audit(["--plan", *words.split()])

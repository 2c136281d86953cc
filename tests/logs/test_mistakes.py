"""Mistakes that leave a trace in a log are noted, and right logs are not."""

import re
from dataclasses import replace

import numpy as np
import pytest

from fairbandit.logs.mistakes import jump
from tests.evaluation.logs import read_log
from tests.studies.mistakes import MISTAKES, RIGHT, notices, right

PLACE = r"about decision (19\d|20\d)"
"""The middle of 400 decisions."""

NOTICES = {
    "missing as 0": "26% of the rewards are 0, and most others differ",
    "missing as -1": "26% of the rewards are -1, and most others differ",
    "missing as -999": "26% of the rewards are -999, and most others differ",
    "missing as the mean": r"26% of the rewards are -?\d\.\d+, and most others differ",
    "cents": f"from {PLACE} on, rewards are .* times as large as before",
    "costs": f"of the rewards other than 0 are positive before {PLACE}, and",
    "labels swapped": f"from {PLACE} on, the groups a and b differ",
    "the group of the pick": "no decision has candidates of two groups",
}


def test_right_logs_are_not_noted():
    """The true rates are 0, and some 3 % for pools by group: 2 % of 60 logs have one notice."""
    noted = [bool(notices(right(kind, seed))) for kind in RIGHT for seed in range(10)]
    assert np.mean(noted) <= 0.02


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_noted(mistake):
    log = right("continuous", seed=1, n=400)
    others, found = (
        read_log(table.frame, propensity=None).notes
        for table in (log, replace(log, **MISTAKES[mistake](log)))
    )
    (notice,) = {*found} - {*others}
    assert re.search(NOTICES[mistake], notice), notice


@pytest.mark.parametrize("where", [25, 100, 170])
def test_a_jump_is_the_best_division_and_a_trend_is_none(where):
    draws = np.random.default_rng(where)
    values = draws.normal(size=200) + 3.0 * (np.arange(200) >= where)
    within = {t: values[:t].var() * t + values[t:].var() * (200 - t) for t in range(20, 181)}
    best = min(within, key=lambda t: within[t])
    assert jump(values) == (best, values[:best].mean(), values[best:].mean())
    assert jump(draws.normal(size=200) + np.linspace(0, 3, 200)) is None

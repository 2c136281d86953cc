"""Ranks runs by a metric, with the runs that tie with the best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairbandit.maths.moments import Floats
from fairbandit.results.pooling import PooledRuns, paired_difference

_RELATIVE, _ABSOLUTE = 1e-9, 1e-12  # tolerances: closer values are equal up to rounding


def rank(runs: Sequence[PooledRuns], column: str) -> tuple[Floats, Any]:
    """Ranks R runs by a metric, separately for each number of rounds.

    Returns:
        ranks: (R,), from 0 for the best to 1 for the worst; NaN for runs that know the truth, and
            for a column without a better direction.
        ties: (R,), whether the interval of the paired difference to the best contains 0.
    """
    ranks, ties = np.full(len(runs), np.nan), np.zeros(len(runs), bool)
    known = {
        row: end["mean"] if end["lower_is_better"] else -end["mean"]
        for row, run in enumerate(runs)
        if not run.knows_truth
        and "lower_is_better" in (end := run.spreads.get(column, {}))
        and end["mean"] is not None
    }
    for rounds in {runs[row].rounds for row in known}:
        rows = sorted((row for row in known if runs[row].rounds == rounds), key=known.__getitem__)
        values = np.array([known[row] for row in rows])
        steps = ~np.isclose(values[1:], values[:-1], rtol=_RELATIVE, atol=_ABSOLUTE)
        ranks[rows] = np.concatenate([[0], steps.cumsum()]) / max(steps.sum(), 1)
        for row in rows:
            difference = paired_difference(runs[row], runs[rows[0]], column)
            near = difference is not None and difference["low"] <= 0 <= difference["high"]
            ties[row] = ranks[row] == 0 or near
    return ranks, ties

"""What was read of a log, in words and numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairbandit.environments.reading import listed
from fairbandit.logs.log import Log


def report(log: Log) -> dict[str, str]:
    """Facts about a log by name: decisions, candidates, groups, features, propensities and rewards.

    What was left out, the order of files and missing cells stand in `log.notes`.
    """
    here, picked = log.groups >= 0, log.picks >= 0
    sizes, picks, counts = here.sum(1), picked.sum(1), np.bincount(log.groups[here])
    groups = [f"{label}: {count:,}" for label, count in zip(log.labels, counts, strict=False)]
    known = "unknown" if np.isnan(log.propensities[picked]).any() else "of the picks alone"
    named = log.schema.names
    return {
        "decisions": f"{len(log):,}, from {log.names[0]} to {log.names[-1]}" if len(log) else "0",
        "candidates": f"{here.sum():,}, {_range(sizes)} a decision",
        "picks": f"{picked.sum():,}, {_range(picks)} a decision",
        "groups": listed(groups),
        "features": f"{len(log.features)}: {listed(list(named), 12)}"
        if named
        else f"{len(log.features)}, without names",
        "propensities": known if log.probabilities is None else "of all candidates",
        "rewards": f"{log.reward or 'reward'}; {1 - log.missing:.1%} of the picks have one",
    }


def _range(numbers: NDArray[np.int64]) -> str:
    low, high = numbers.min(initial=10**9), numbers.max(initial=0)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"

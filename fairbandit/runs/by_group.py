"""The picks of each group in a finished run, from its round log."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbandit.runs.moments import Floats
from fairbandit.runs.reading import logs
from fairbandit.runs.settings import COST

RAW_REWARD = "raw_reward"
"""The measure of the reward before it was standardised."""

MEASURES = {
    **{"share": None, "reward": False, RAW_REWARD: False, "rank": False},
    **{"fair_regret": True, COST: True},
}
"""The measures of a group's picks, and whether lower is better; columns are `MEASURE:GROUP`."""

_NEEDS = {RAW_REWARD: "mean", COST: "std"}  # entries of the unit of the reward


def measures(*summaries: Mapping[str, Any]) -> list[str]:
    """Returns the measures that all of some runs have."""
    entries = set.intersection(*({"", *summary.get("unit", {})} for summary in summaries))
    return [name for name in MEASURES if _NEEDS.get(name, "") in entries]


def of_groups(folder: Path, summary: Mapping[str, Any]) -> dict[str, Floats]:
    """Returns each measure of each group's picks in each replica, (B,).

    These are the group's share in the picks, and means over its picks: of the reward, also in the
    unit of its column; of the true rank; of the fair regret, which is the mean of the m best true
    ranks of the pool less the rank of the pick; and of the cost, which is the same of true rewards
    in the unit of the column. They are NaN in a replica without picks of the group, but for the
    share.

    Raises:
        FairbanditError: a file is missing or damaged.
    """
    groups: list[str] = summary["groups"]
    width = len(groups) + 1  # the last column is for no pick, −1
    sums = np.zeros((5, summary["replicas"] * width))
    several = ["slot"] if summary["config"]["picks"] > 1 else []
    columns = ["replica", "group", "reward", "rank", "fair_regret", "expected_reward"]
    for table in logs(folder, summary, [*columns, "standard_regret", *several]):
        replica, group, reward, rank, fair, expected, standard, *slot = (
            column.to_numpy() for column in table.columns
        )
        firsts = np.flatnonzero(slot[0] == 0) if slot else np.arange(len(rank))
        lost = _lost(rank, fair, firsts), _lost(expected, standard, firsts)
        measured = (np.ones(len(rank)), reward, rank, *lost)
        for total, values in zip(sums, measured, strict=True):
            total += np.bincount(replica * width + group % width, values, len(total))
    picked, *others = sums.reshape(len(sums), -1, width)[:, :, :-1]
    with np.errstate(invalid="ignore"):
        reward, rank, fair, cost = (of / picked for of in others)
        share = picked / picked.sum(1, keepdims=True)
    mean, std = (summary.get("unit", {}).get(part, np.nan) for part in ("mean", "std"))
    raw, cost = mean + std * reward, std * cost
    found = dict(zip(MEASURES, (share, reward, raw, rank, fair, cost), strict=True))
    return {
        f"{measure}:{label}": found[measure][:, code]
        for measure in measures(summary)
        for code, label in enumerate(groups)
    }


def _lost(merit: Floats, regret: Floats, firsts: NDArray[np.int64]) -> Floats:
    """Returns the mean merit of the m best of the pool less the merit of each pick.

    `firsts` are the first rows of the rounds, which hold their regrets.
    """
    picks = np.diff(firsts, append=len(merit))
    best = (regret[firsts] + np.add.reduceat(merit, firsts)) / picks
    lost: Floats = np.repeat(best, picks) - merit
    return lost

"""The picks of each group in a finished run, from its round log."""

from __future__ import annotations

import numpy as np

from fairbandit.maths.moments import Floats
from fairbandit.results.runs import SavedRun
from fairbandit.run.reading import logs

MEASURES = {"share": None, "reward": False, "rank": False, "fair_regret": True}
"""The measures of a group's picks, and whether lower is better; columns are `MEASURE:GROUP`."""


def of_groups(run: SavedRun) -> dict[str, Floats]:
    """Returns each measure of each group's picks in each replica, (B,).

    These are the group's share in the picks, and the means over its picks of the reward, of the
    true rank, and of the fair regret, which is the mean of the m best true ranks of the pool less
    the rank of the pick. They are NaN in a replica without picks of the group, but for the share.

    Raises:
        FairbanditError: a file is missing or damaged.
    """
    sums = np.zeros((4, run.summary["replicas"] * len(run.groups)))
    several = ["slot"] if run.summary["config"]["picks"] > 1 else []
    columns = ["replica", "group", "reward", "rank", "fair_regret", *several]
    for table in logs(run.folder, run.summary, columns):
        replica, group, reward, rank, regret, *slot = (c.to_numpy() for c in table.columns)
        firsts = np.flatnonzero(slot[0] == 0) if slot else np.arange(len(rank))
        picks = np.diff(firsts, append=len(rank))  # a round's regret is in its first row
        best = (regret[firsts] + np.add.reduceat(rank, firsts)) / picks
        lost = np.repeat(best, picks) - rank
        for total, values in zip(sums, (np.ones(len(rank)), reward, rank, lost), strict=True):
            total += np.bincount(replica * len(run.groups) + group, values, len(total))
    picked, *others = sums.reshape(4, -1, len(run.groups))
    with np.errstate(invalid="ignore"):
        values = [picked / picked.sum(1, keepdims=True), *(of / picked for of in others)]
    found = zip(MEASURES, values, strict=True)
    return {
        f"{measure}:{label}": of[:, code]
        for measure, of in found
        for code, label in enumerate(run.groups)
    }

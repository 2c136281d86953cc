"""The one reader of saved runs, which tables, figures, audits and the dashboard share.

`read_runs` finds the finished runs below some folders, `read_scenes` groups and labels them by
environment, and `table.tidy` makes one table of them. A run's files are verified when they are
read; nothing here plays.
"""

from fairbandit.results.pooling import PooledRuns, interval, merged, pool
from fairbandit.results.runs import Curve, RewardDistribution, SavedRun, differing, read_runs
from fairbandit.results.scenes import Scene, labels, read_scenes

__all__ = [
    "Curve",
    "PooledRuns",
    "RewardDistribution",
    "SavedRun",
    "Scene",
    "differing",
    "interval",
    "labels",
    "merged",
    "pool",
    "read_runs",
    "read_scenes",
]

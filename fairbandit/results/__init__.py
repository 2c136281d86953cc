"""The reader of saved runs for tables, figures, audits and the dashboard.

`read_runs` finds the finished runs below some folders, `pool` pools runs that differ only in their
seeds, `read_scenes` groups and labels runs by environment, and `table.tidy` puts them in one table.
`load` returns the same data to notebooks as pandas tables. A run's files are verified when they
are read; this package never plays a run.
"""

from fairbandit.results.differences import differing
from fairbandit.results.loaded import Runs, load
from fairbandit.results.pooling import PooledRuns, interval, pool
from fairbandit.results.runs import SavedRun, read_runs
from fairbandit.results.scenes import Scene, labels, read_scenes
from fairbandit.run.curves import Curve

__all__ = [
    "Curve",
    "PooledRuns",
    "Runs",
    "SavedRun",
    "Scene",
    "differing",
    "interval",
    "labels",
    "load",
    "pool",
    "read_runs",
    "read_scenes",
]

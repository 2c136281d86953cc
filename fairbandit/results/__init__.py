"""The one reader of saved runs, which tables, figures, audits and the dashboard share.

`read_runs` finds the finished runs below some folders, `pool` takes together those that differ only
in their seeds, `read_scenes` groups and labels them by environment, and `table.tidy` makes one
table of them. `load` gives all of this to notebooks, as tables of pandas. A run's files are
verified when they are read; nothing here plays.
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

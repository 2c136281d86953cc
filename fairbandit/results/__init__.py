"""The reader of saved runs for tables, figures, audits and the dashboard.

`read_runs` finds the finished runs below some folders, `pool` pools runs that differ only in their
seeds and names them, `read_scenes` groups them by environment, and `table.tidy` puts them in one
table. `load` returns the same data to notebooks as pandas tables. A run's files are verified when
they are read; this package never plays a run.
"""

from fairbandit.results.loaded import Runs, load
from fairbandit.results.pooling import PooledRuns, pool
from fairbandit.results.runs import SavedRun, read_runs
from fairbandit.results.scenes import Scene, read_scenes

__all__ = [
    "PooledRuns",
    "Runs",
    "SavedRun",
    "Scene",
    "load",
    "pool",
    "read_runs",
    "read_scenes",
]

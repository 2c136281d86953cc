"""Plays runs, and reads saved runs for tables, figures, audits and the dashboard.

`execute.execute` plays a run and saves it. All other names here only read runs:
`read_runs` finds the finished runs below some folders, `pool` pools runs that differ only in their
seeds and names them, `read_scenes` groups them by environment, and `overview.tidy` puts them in one
table. `load` returns the same data to notebooks as pandas tables. A run's files are verified when
they are read.
"""

from fairbandit.runs.loaded import Runs, load
from fairbandit.runs.pooling import PooledRuns, pool
from fairbandit.runs.saved import SavedRun, read_runs
from fairbandit.runs.scenes import Scene, read_scenes

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

"""Plays runs, and reads saved runs for tables, figures, audits and the dashboard.

`run` plays a run, and `sweep` all combinations of some settings. `load` reads the finished runs
below some folders as one tidy table of pandas, which `pooled` and `compare` take. A run's files are
verified when they are read.
"""

from fairbandit.runs.play import run, sweep
from fairbandit.runs.saved import Callback, Run, read_runs
from fairbandit.runs.tables import compare, load, pooled

__all__ = ["Callback", "Run", "compare", "load", "pooled", "read_runs", "run", "sweep"]

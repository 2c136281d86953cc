"""Fair contextual bandits, composed from registered parts.

Shapes are written with these letters: B replicas, T rounds of a run, N consecutive rounds that are
decided together, K places of a pool, G groups, d features, and U ≤ N reward models, which the N
rounds share. Rounds count from 1; group −1 is an empty place.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from fairbandit.version import VERSION

if TYPE_CHECKING:
    from fairbandit.agent import Agent, Decision, Explanation, Offer, Opening
    from fairbandit.environments import Encoder
    from fairbandit.environments.base import Truth
    from fairbandit.errors import FairbanditError
    from fairbandit.evaluation import evaluate
    from fairbandit.logs import Log, read_log
    from fairbandit.metrics import Metric, Played
    from fairbandit.policy import Engine, Policy
    from fairbandit.policy.build import build
    from fairbandit.registry import load_plugins, register
    from fairbandit.runs import Callback, Run, compare, load, pooled, run, sweep
    from fairbandit.runs.tuning import tune
    from fairbandit.tables.reading import read_table

_NAMES = {
    "agent": ("Agent", "Decision", "Explanation", "Offer", "Opening"),
    "runs": ("Callback", "Run", "compare", "load", "pooled", "run", "sweep"),
    "environments": ("Encoder",),
    "policy": ("Engine", "Policy"),
    "errors": ("FairbanditError",),
    "logs": ("Log", "read_log"),
    "metrics": ("Metric", "Played"),
    "environments.base": ("Truth",),
    "policy.build": ("build",),
    "evaluation": ("evaluate",),
    "registry": ("load_plugins", "register"),
    "tables.reading": ("read_table",),
    "runs.tuning": ("tune",),
}
"""The public names of each module, which is imported when a name is first asked for, so that the
command can answer before torch, which takes seconds, is imported."""

__all__ = [
    "Agent",
    "Callback",
    "Decision",
    "Encoder",
    "Engine",
    "Explanation",
    "FairbanditError",
    "Log",
    "Metric",
    "Offer",
    "Opening",
    "Played",
    "Policy",
    "Run",
    "Truth",
    "build",
    "compare",
    "evaluate",
    "load",
    "load_plugins",
    "pooled",
    "read_log",
    "read_table",
    "register",
    "run",
    "sweep",
    "tune",
]
__version__ = VERSION


def __getattr__(name: str) -> Any:
    """Imports a submodule, or the module of a public name, when it is first asked for."""
    for module, names in _NAMES.items():
        if name in names:
            return getattr(import_module(f"fairbandit.{module}"), name)
    if name.startswith("_") or find_spec(f"fairbandit.{name}") is None:
        raise AttributeError(f"module 'fairbandit' has no attribute {name!r}")
    return import_module(f"fairbandit.{name}")


def __dir__() -> list[str]:
    """The public names, and the names of imported submodules."""
    return sorted({*globals(), *__all__})

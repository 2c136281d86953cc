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

_MODULES = {
    "Agent": "agent",
    "Callback": "runs",
    "Decision": "agent",
    "Encoder": "environments",
    "Engine": "policy",
    "Explanation": "agent",
    "FairbanditError": "errors",
    "Log": "logs",
    "Metric": "metrics",
    "Offer": "agent",
    "Opening": "agent",
    "Played": "metrics",
    "Policy": "policy",
    "Run": "runs",
    "Truth": "environments.base",
    "build": "policy.build",
    "compare": "runs",
    "evaluate": "evaluation",
    "load": "runs",
    "load_plugins": "registry",
    "pooled": "runs",
    "read_log": "logs",
    "read_table": "tables.reading",
    "register": "registry",
    "run": "runs",
    "sweep": "runs",
    "tune": "runs.tuning",
}
"""The module of each public name: it is imported when the name is first asked for, so that the
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
    if name in _MODULES:
        return getattr(import_module(f"fairbandit.{_MODULES[name]}"), name)
    if name.startswith("_") or find_spec(f"fairbandit.{name}") is None:
        raise AttributeError(f"module 'fairbandit' has no attribute {name!r}")
    return import_module(f"fairbandit.{name}")


def __dir__() -> list[str]:
    """The public names, and those of the submodules that are imported."""
    return sorted({*globals(), *__all__})

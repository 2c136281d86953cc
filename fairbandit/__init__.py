"""Fair contextual bandits, composed from registered parts.

Shapes are written with these letters: B replicas, T rounds of a run, N consecutive rounds that are
decided together, K places of a pool, G groups, d features, and U ≤ N reward models, which the N
rounds share. Rounds count from 1; group −1 is an empty place.
"""

from typing import TYPE_CHECKING, Any

from fairbandit.agent import Agent, Decision
from fairbandit.build import build
from fairbandit.engine import Engine
from fairbandit.environments.base import Truth
from fairbandit.errors import FairbanditError
from fairbandit.metrics import Metric, Played
from fairbandit.plugins import load_plugins
from fairbandit.policy import Policy
from fairbandit.registry import register
from fairbandit.version import VERSION

if TYPE_CHECKING:
    from fairbandit.results import load

__all__ = [
    "Agent",
    "Decision",
    "Engine",
    "FairbanditError",
    "Metric",
    "Played",
    "Policy",
    "Truth",
    "build",
    "load",
    "load_plugins",
    "register",
]
__version__ = VERSION


def __getattr__(name: str) -> Any:
    """Imports the reader of saved runs when it is first asked for, since agents do without it."""
    if name == "load":
        from fairbandit.results import load

        return load
    raise AttributeError(f"module 'fairbandit' has no attribute {name!r}")

"""Fair linear contextual bandits, composed from registered parts."""

from fairbandit.errors import FairbanditError
from fairbandit.registry import register

__all__ = ["FairbanditError", "register"]
__version__ = "0.1.0"

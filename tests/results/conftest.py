"""The saved runs that figures are drawn of, read here."""

from tests.figures.conftest import mixed, mixed_scene, scene, simulated
from tests.run.conftest import config

__all__ = ["config", "mixed", "mixed_scene", "scene", "simulated"]

"""A config of a small run, and the saved runs that figures are drawn of, read here."""

import pytest

from tests import support
from tests.figures.conftest import mixed, mixed_scene, scene, simulated

__all__ = ["config", "mixed", "mixed_scene", "scene", "simulated"]


@pytest.fixture
def config():
    """A small run of the simulation."""
    policy = {"name": "fair_greedy", **support.PRESETS["fair_greedy"]}
    world = {"name": "simulation"}
    return {"policy": policy, "environment": world, "rounds": 100, "replicas": 3, "seed": 1}

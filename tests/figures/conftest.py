from pathlib import Path
from typing import Any

import pytest

from fairbandit.runs.execute import execute
from fairbandit.runs.scenes import read_scenes
from tests import support
from tests.environments.data import arguments, people, write

POLICIES = ("uniform", "greedy", "fair_greedy")


def sweep(folder: Path, environment: Any, policies: Any = POLICIES, **settings: Any) -> Path:
    """Runs as a sweep leaves them."""
    for name in policies:
        config = {
            "policy": {"name": name, **support.PRESETS[name]},
            "environment": environment,
            "rounds": 400,
            "replicas": 3,
            **settings,
        }
        execute(config, folder / name, progress=False)
    return folder


@pytest.fixture(scope="session")
def simulated(tmp_path_factory):
    """A sweep in the simulation."""
    return sweep(tmp_path_factory.mktemp("simulated"), {"name": "simulation"})


@pytest.fixture(scope="session")
def mixed(tmp_path_factory):
    """A sweep in a table whose pools mix three groups, of which b and c are small."""
    folder = tmp_path_factory.mktemp("mixed")
    path = write(folder / "people.csv", people())
    world = arguments(path, pool="random", candidates=5, rewards="model", noise=0.2)
    return sweep(folder, world)


@pytest.fixture
def scene(simulated):
    (found,) = read_scenes([simulated])
    return found


@pytest.fixture
def mixed_scene(mixed):
    (found,) = read_scenes([mixed])
    return found

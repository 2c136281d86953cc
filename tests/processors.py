"""Plays every policy and prints all decisions, and what they were computed by, as JSON.

`python -m tests.processors FOLDER`, the folder for a table; environment variables choose the
kernels. tests/test_processors.py compares such a process with its own.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fairbandit.environments import Environment
from tests import support
from tests.agent.worlds import Coarse
from tests.environments.data import COLUMNS, people, write

ROUNDS, REPLICAS = 300, 2


def table(folder: Path) -> Environment:
    """Few people with features that depend on each other: the same one comes again and again."""
    return support.environment(
        "table",
        path=str(write(folder / "people.csv", people())),
        group="group",
        reward="wage",
        columns=COLUMNS,
        pool="random",
        candidates=6,
        rewards="model",
        noise=0.2,
    )


def report(folder: Path) -> dict[str, Any]:
    """Plays; all decisions by policy and environment, and what they were computed by."""
    draws = np.random.default_rng(0)
    one, other = (torch.from_numpy(draws.normal(size=(200, 200))) for _ in range(2))
    worlds = {"simulation": support.environment(), "coarse": Coarse(), "table": table(folder)}
    decisions = {
        f"{name} on {world}": support.actions(
            support.policy(name), played, ROUNDS, REPLICAS
        ).tolist()
        for world, played in worlds.items()
        for name in support.PRESETS
    }
    for name in ("greedy", "fair_greedy", "oful"):
        chosen = support.policy(name, regularization=1e-8)
        actions = support.actions(chosen, worlds["simulation"], ROUNDS, REPLICAS)
        decisions[f"{name} at a tiny regularization"] = actions.tolist()
    kernels = {
        "vectorized": torch.backends.cpu.get_cpu_capability(),
        "products": hashlib.sha256((one @ other).numpy().tobytes()).hexdigest(),
    }
    return {"kernels": kernels, "decisions": decisions}


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(report(Path(sys.argv[1]))))

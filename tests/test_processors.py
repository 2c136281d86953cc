"""Decisions do not depend on the processor: one machine plays with the kernels of another.

`python -m tests.test_processors FOLDER` prints all decisions, and what they were computed by, as
JSON; environment variables choose the kernels.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fairbandit import Policy
from fairbandit.environments import Environment
from fairbandit.policy.build import build_policy
from tests import support
from tests.agent.worlds import Coarse
from tests.estimators.test_ties import LASTING, Categories, table

ROUNDS, REPLICAS = 100, 2

ALONE = {name: config for name, config in LASTING.items() if name not in support.PRESETS}

OLD = {
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    "MKL_CBWR": "COMPATIBLE",  # what AMD's processors heed
}
"""As a processor would compute that has no instructions beyond SSE4.2."""


def report(folder: Path) -> dict[str, Any]:
    """Plays; all decisions by policy and environment, and what they were computed by."""
    one, other = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 200, 200)))
    simulation, categories = support.environment(), Categories()
    worlds = {"simulation": simulation, "coarse": Coarse(), "table": table(folder)}
    plays: dict[str, tuple[Policy, Environment]] = {
        f"{name} on {place}": (support.policy(name), worlds[place])
        for name, place in zip(support.PRESETS, cycle(worlds))
    }
    for name in ("greedy", "fair_greedy", "oful"):
        tiny = support.policy(name, regularization=1e-8)
        plays[f"{name} at a tiny regularization"] = tiny, simulation
    for name, config in ALONE.items():
        plays[f"{name} on categories"] = build_policy(config), categories
    decisions = {
        name: support.actions(policy, world, ROUNDS, REPLICAS).tolist()
        for name, (policy, world) in plays.items()
    }
    kernels = {
        "vectorized": torch.backends.cpu.get_cpu_capability(),
        "products": hashlib.sha256((one @ other).numpy().tobytes()).hexdigest(),
    }
    return {"kernels": kernels, "decisions": decisions}


def test_two_processors_decide_alike(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("new", "old")]
    for folder in folders:
        folder.mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", __name__, str(folders[1])],
        cwd=support.REPOSITORY,
        env={**os.environ, **OLD},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        new = report(folders[0])
        out, err = running.communicate(timeout=300)
    assert running.returncode == 0, err
    old = json.loads(out)
    assert old["kernels"]["vectorized"] == "DEFAULT"
    if new["kernels"]["vectorized"] != "DEFAULT" and torch.backends.mkl.is_available():
        assert new["kernels"]["products"] != old["kernels"]["products"]
    for what, decided in new["decisions"].items():
        assert decided == old["decisions"][what], what


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(report(Path(sys.argv[1]))))

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
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fairbandit.environments import Environment
from tests import support
from tests.agent.worlds import Coarse

ROUNDS, REPLICAS = 300, 2

OLD = {
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    "MKL_CBWR": "COMPATIBLE",  # what AMD's processors heed
}
"""As a processor would compute that has no instructions beyond SSE4.2."""


def table(folder: Path) -> Environment:
    """Few people with features that depend on each other: the same one comes again and again."""
    draws, rows = np.random.default_rng(0), ["group,age,hours,both,wage"]
    for _ in range(120):
        age, hours = draws.integers(18, 24), draws.integers(1, 5)
        wage = 3 * age + 7 * hours + draws.normal()
        rows.append(f"{draws.choice(['a', 'b', 'c'])},{age},{hours},{age + hours},{wage}")
    path = folder / "people.csv"
    path.write_text("\n".join(rows) + "\n")
    columns = dict.fromkeys(("age", "hours", "both"))
    how: dict[str, Any] = {"pool": "random", "candidates": 6, "rewards": "model", "noise": 0.2}
    return support.environment(
        "table", path=str(path), group="group", reward="wage", columns=columns, **how
    )


def report(folder: Path) -> dict[str, Any]:
    """Plays; all decisions by policy and environment, and what they were computed by."""
    one, other = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 200, 200)))
    worlds = {"simulation": support.environment(), "coarse": Coarse(), "table": table(folder)}
    chosen = {name: support.policy(name) for name in support.PRESETS}
    for name in ("greedy", "fair_greedy", "oful"):
        chosen[f"{name} at a tiny regularization"] = support.policy(name, regularization=1e-8)
    decisions = {
        f"{name} on {world}": support.actions(policy, played, ROUNDS, REPLICAS).tolist()
        for world, played in worlds.items()
        for name, policy in chosen.items()
        if world == "simulation" or name in support.PRESETS
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
    assert len(new["decisions"]) == 3 * len(support.PRESETS) + 3
    for what, decided in new["decisions"].items():
        assert decided == old["decisions"][what], what


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(report(Path(sys.argv[1]))))

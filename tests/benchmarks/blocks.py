"""`python -m tests.benchmarks.blocks FILE.png`: how large blocks are along a run, and how often
they are decided."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import matplotlib.pyplot as plt

from fairbandit import Engine, Policy, engine
from fairbandit.environments import Environment
from fairbandit.fixed_point import Solution, fixed_point
from tests import support
from tests.adversary import Flipping
from tests.test_fixed_point import made

ROUNDS = 2000


def blocks(policy: Policy, world: Environment, replicas: int, rounds: int) -> list[list[int]]:
    """First round, number of rounds and repetitions of each block that was a fixed point."""
    found: list[list[int]] = []

    def recorded(policy: Policy, history: Any, first: int, pools: Any, alone: int) -> Solution:
        solution = fixed_point(policy, history, first, pools, alone)
        found.append([first, pools.groups.shape[1], solution.repetitions])
        return solution

    with patch.object(engine, "fixed_point", recorded):
        for _ in Engine(policy, world, rounds=rounds, seed=0, replicas=range(replicas)).play():
            pass
    return found


def draw(path: Path) -> None:
    """Draws both along runs of three policies."""
    cases = {
        "greedy, 10 replicas": (support.policy("greedy"), support.environment(), 10, ROUNDS),
        "OFUL, 10 replicas": (support.policy("oful"), support.environment(), 10, ROUNDS),
        "every guess wrong": (
            made(estimator={"name": "ridge", "noise": 0.0}),
            Flipping(),
            1,
            900,
        ),
    }
    figure, (size, repeated) = plt.subplots(2, 1, sharex=True, figsize=(8, 5), layout="constrained")
    for (name, case), marker in zip(cases.items(), "os^", strict=True):
        first, rounds, repetitions = zip(*blocks(*case), strict=True)
        size.plot(first, rounds, marker, ms=4, label=name)
        repeated.plot(first, repetitions, marker, ms=4)
    size.set(ylabel="rounds in the block", yscale="log", xscale="log")
    size.set_yticks([1, 2, 4, 8, 16, 32, 64, 128, 256], [1, 2, 4, 8, 16, 32, 64, 128, 256])
    size.minorticks_off()
    size.legend(loc="upper left")
    repeated.set(xlabel="first round of the block", ylabel="repetitions", ylim=(0, None))
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    draw(Path(sys.argv[1]))

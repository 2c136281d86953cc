"""Order beside rewards, in worlds of four groups: `python -m tests.studies.order_worlds`.

A table of the fair regret of `order_greedy`, `order_scores` and greedy ridge regression after 3,000
rounds, 20 runs each, in four to twelve minutes.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from fairbandit import Engine, Policy, build
from fairbandit.environments import Environment, Table
from fairbandit.splits import Plan, Split
from fairbandit.splits.base import Ints
from tests import support

Array = NDArray[np.float64]

D, G, NOISE = 6, 4, 0.3
DISTORTIONS = ["identity", "exp", "cube", "tanh"]
POLICIES = {"ridge": "fair_greedy", "pairs": "order_greedy", "scores": "order_scores"}

FEATURES: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "Gaussian": lambda draws, n: draws.normal(size=(n, D)),
    "correlated": lambda draws, n: draws.normal(size=(n, D)) @ draws.normal(size=(D, D)) / D**0.5,
    "uniform": lambda draws, n: draws.uniform(-(3**0.5), 3**0.5, (n, D)),
    "exponential": lambda draws, n: draws.exponential(size=(n, D)),
    "mostly binary": lambda draws, n: np.hstack(
        [draws.uniform(size=(n, D - 1)) < 0.3, draws.normal(size=(n, 1))]
    ),
}
ROWS = [(kind, 1.0, NOISE, first) for first in (0, 16) for kind in FEATURES]
ROWS += [("Gaussian", 0.0, NOISE, 0), ("Gaussian", 1.0, 5 * NOISE, 0), ("default", 0.0, 0.0, 0)]
"""Features, how far the means of groups differ, noise, and how many rounds pick at random."""


class FirstAfter(Split):
    """All of the past, but the first model comes after so many rounds, which pick at random."""

    part_name = "first_after"

    def __init__(self, *, rounds: int) -> None:
        self.rounds = rounds

    def _divide(self, t: Ints) -> Plan:
        n_train = np.where(t > self.rounds, t - 1, 0)
        return Plan(n_train, np.zeros_like(t), t - 1)


def people(kind: str, number: int, shift: float) -> pd.DataFrame:
    """5,000 of each group, where θ and the means of groups are normal, the latter times `shift`."""
    draws = np.random.default_rng([number, *kind.encode()])
    x = [FEATURES[kind](draws, 5000) + shift * draws.normal(size=D) for _ in range(G)]
    found = pd.DataFrame(np.concatenate(x), columns=list("abcdef"))
    found["reward"] = found.to_numpy() @ draws.normal(size=D)
    return found.assign(group=np.repeat(list("nesw"), 5000))


def regrets(world: Environment, name: str, first: int, rounds: int, seeds: int) -> Array:
    """The fair regret of each seed; every policy fits anew at 15 % more picks."""
    chosen: Any = build({"name": POLICIES[name], "split": "full", "refresh": 1.15})
    late = Policy(**{**chosen.parts, "split": FirstAfter(rounds=first)}, refresh=1.15)
    engine = Engine(late, world, rounds=rounds, seed=0, replicas=range(seeds))
    return np.sum([part.metrics["fair_regret"].sum(1).numpy() for part in engine.play()], axis=0)


def played(
    kind: str, shift: float, noise: float, first: int, numbers: int = 4, rounds: int = 3000
) -> dict[str, Array]:
    """The regrets of policies in so many worlds, 20 runs in all, by name: of all of them without
    distortion, and of two of them with it."""
    found: dict[str, list[Array]] = {}
    for number in range(1 if kind == "default" else numbers):
        keys: dict[str, Any] = {"group": "group", "reward": "reward", "rewards": "model"}
        base, unit = None, 1.0
        if kind != "default":
            data = people(kind, number, shift)
            unit = float(data["reward"].std(ddof=0))  # tables divide rewards by it
            keys |= {"group_feature": False, "bias": False, "noise": noise / unit}
            table = Table.from_data(data, **keys)
            base = {"name": "table", "path": table.path, **keys}
        for functions, names in ((["identity"], POLICIES), (DISTORTIONS, ["ridge", "pairs"])):
            world = support.environment("distorted", base=base, functions=functions, scale=unit)
            for name in names:
                got = regrets(world, name, first, rounds, 20 if base is None else 20 // numbers)
                found.setdefault(f"{name}, {len(functions)}", []).append(got)
    return {name: np.concatenate(values) for name, values in found.items()}


def mean(values: Array) -> str:
    """The mean and its standard error."""
    return f"{values.mean():.2f} ± {values.std(ddof=1) / math.sqrt(len(values)):.2f}"


def ratio(above: Array, below: Array) -> str:
    """A ratio of means of paired runs, and its standard error by the delta method."""
    found = above.mean() / below.mean()
    return (
        f"{found:.2f} ± {(above - found * below).std() / math.sqrt(len(above)) / below.mean():.2f}"
    )


def main() -> None:
    """Prints the table."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.set_num_threads(1)
    print(
        "| features | means differ by | noise | random rounds | distorted: ridge | pairs |", end=""
    )
    print(" share | identity: ridge | pairs | scores | pairs / ridge | scores / ridge |")
    print("|---|" + "---|" * 11)
    for row in ROWS:
        got = played(*row)
        ridge, pairs, scores = (got[f"{name}, 1"] for name in POLICIES)
        cells = [*map(mean, (got["ridge, 4"], got["pairs, 4"])), ratio(pairs, got["ridge, 4"])]
        cells += [*map(mean, (ridge, pairs, scores)), ratio(pairs, ridge), ratio(scores, ridge)]
        print("|", " | ".join([*map(str, row), *cells]), "|", flush=True)


if __name__ == "__main__":
    main()

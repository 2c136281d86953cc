"""The problems that the benchmarks play, and what the literal loop is told of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fairbandit.environments import Environment, Simulation
from fairbandit.environments.base import Pools
from fairbandit.streams import Streams
from tests import literal, support

SIMULATION: dict[str, Any] = {"name": "simulation"}
"""The paper's simulation: K = G = 4, d = 17."""

PEOPLE = 20_000
SHARES = [0.62, 0.14, 0.10, 0.07, 0.05, 0.02]
CATEGORIES = {"schooling": 14, "work": 12, "place": 8}
NUMBERS = ["age", "hours", "rooms", "miles", "years"]


class Scale(Enum):
    """How large the benchmarks are."""

    full = "the sizes that the targets are stated for"
    quick = "all of it in two to six minutes"
    tiny = "to see that everything runs"


@dataclass(frozen=True)
class Bench:
    """What a benchmark is given."""

    scale: Scale
    folder: Path  # an empty place for files
    say: Callable[[str], None]  # tells the person who waits what runs now


def ethnicity(folder: Path) -> dict[str, Any]:
    """A problem of the shape of `census_ethnicity`, made up: K = 10, G = 6, d = 40.

    A table of people in six groups of uneven size, three categories and five numbers, pools of
    ten drawn at random.
    """
    path = folder / "people.parquet"
    if not path.exists():
        pq.write_table(pa.table(_people()), path)
    columns: dict[str, Any] = {name: list(range(size)) for name, size in CATEGORIES.items()}
    return {
        "name": "table",
        "path": str(path),
        "group": "group",
        "reward": "income",
        "columns": columns | dict.fromkeys(NUMBERS),
        "group_feature": False,
        "pool": "random",
        "candidates": 10,
        "rewards": "model",
        "noise": 0.2,
    }


def _people() -> dict[str, Any]:
    draw = np.random.default_rng(0)
    people: dict[str, Any] = {"group": draw.choice(len(SHARES), PEOPLE, p=SHARES)}
    income = 0.3 * people["group"] + draw.normal(0, 1, PEOPLE)
    for name, size in CATEGORIES.items():
        people[name] = draw.integers(0, size, PEOPLE)
        income += draw.normal(0, 1, size)[people[name]]
    for name in NUMBERS:
        people[name] = draw.random(PEOPLE)
        income += draw.normal() * people[name]
    return people | {"income": income}


def truth(world: Environment) -> literal.Truth:
    """What the literal loop's oracles know; of a table, θ alone."""
    assert world.truth is not None
    theta = world.truth.linear_theta().numpy()
    if not isinstance(world, Simulation):
        return literal.Truth(theta, _unknown)
    shares = [
        uniform_sum(weights, offset)
        for weights, offset in zip(world.weights, world.offsets, strict=True)
    ]
    return literal.Truth(theta, lambda group, value: shares[group](value))


def _unknown(group: int, value: float) -> float:
    raise AssertionError("no benchmark asks for the true CDF of a table")


def uniform_sum(weights: Sequence[float], offset: float) -> Callable[[float], float]:
    """P(offset + Σ wᵢUᵢ ≤ v) for w ≥ 0, in closed form (Hall, 1927), as fast as NumPy gives it.

    The tests' own, `support.weighted_uniforms_cdf`, is independent of the formula but some forty
    times slower, which would flatter whatever is set beside a loop that calls it.
    """
    terms = [weight for weight in weights if weight]
    subsets = [s for size in range(len(terms) + 1) for s in combinations(terms, size)]
    edges = np.array([math.fsum(subset) for subset in subsets])
    signs = np.array([(-1.0) ** len(subset) for subset in subsets])
    total, volume = math.fsum(terms), math.factorial(len(terms)) * math.prod(terms)

    def share(value: float) -> float:
        value -= offset
        tail = min(value, total - value)  # the shorter tail, where less cancels
        if tail <= 0:
            return float(value >= total)
        below = float(signs @ np.maximum(tail - edges, 0.0) ** len(terms)) / volume
        return 1.0 - below if value > total / 2 else below

    return share


def pools(world: Environment, rounds: int, first: int = 1) -> Pools:
    """Some rounds of one replica."""
    world.bind(Streams(0, [0]))
    return world.pools(first, rounds)


def built(config: dict[str, Any]) -> Environment:
    """The environment of some plain data."""
    return support.environment(**config)

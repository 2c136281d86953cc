"""Shared by the tests: presets without Hydra, runs in memory, draws for the literal loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fairbandit import Engine, Policy, build, registry
from fairbandit.environments import Environment, Table
from fairbandit.errors import FairbanditError
from fairbandit.estimators import LinearModel, Models
from fairbandit.estimators.ties import Approximate
from fairbandit.files import state
from fairbandit.history import History, Problem
from fairbandit.metrics import Played
from fairbandit.policy.build import preset, presets
from fairbandit.ranks import Scored
from fairbandit.selectors import Ranked
from fairbandit.splits import Full
from fairbandit.streams import Purpose, Streams
from tests.literal import Draws

REPOSITORY = Path(__file__).resolve().parents[1]

PRESETS: dict[str, dict[str, Any]] = {
    "fair_greedy": {"split": "halves", "estimator": "ridge", "rank": "empirical_cdf"},
    "fair_greedy_oracle_cdf": {"split": "full", "estimator": "ridge", "rank": "oracle_cdf"},
    "fair_greedy_oracle_rewards": {
        "split": "full",
        "estimator": "oracle",
        "rank": "empirical_cdf",
    },
    "greedy": {
        "split": "full",
        "estimator": {"name": "ridge", "noise": 0.0},
        "rank": "identity",
    },
    "oful": {"split": "full", "estimator": "optimistic_ridge", "rank": "identity"},
    "uniform": {"split": "full", "estimator": "zero", "rank": "identity"},
    "gmf": {"split": "full", "estimator": "oracle", "rank": "oracle_cdf"},
    "optimal": {"split": "full", "estimator": "oracle", "rank": "identity"},
}
"""The paper's policies, written out here so that conf/policy is checked against them."""

NOTIONS: dict[str, dict[str, Any]] = {
    name: {key: part for key, part in preset(name).items() if key != "name"}
    for name in presets()
    if name not in PRESETS
}
"""The policies of other notions of fairness, which tests/notions compares with loops."""


def some(cases: Iterable[Any], every: int) -> list[Any]:
    """The cases of a test; `make test` plays the first of every so many, `make test-all` all."""
    rows = (case if isinstance(case, tuple) else (case,) for case in cases)
    marks = ([pytest.mark.all] * (n % every > 0) for n in count())
    return [pytest.param(*row, marks=marked) for row, marked in zip(rows, marks, strict=False)]


def playable(split: str, estimator: str, rank: str) -> dict[str, Any]:
    """Parts of a policy, some of them others where the rank or the estimator needs it."""
    if rank == "interval_cdf":
        split, estimator = "full", "optimistic_ridge"
    refresh = 1.3 if "refresh" in registry.lookup("estimator", estimator).needs else None
    return {"split": split, "estimator": estimator, "rank": rank, "refresh": refresh}


def policy(name: str, **estimator: Any) -> Policy:
    """A preset, with some of its estimator's hyperparameters changed."""
    parts = dict({**PRESETS, **NOTIONS}[name])
    if estimator:
        given = parts["estimator"]
        parts["estimator"] = {**({"name": given} if isinstance(given, str) else given), **estimator}
    made = build({"name": name, **parts})
    assert isinstance(made, Policy)
    return made


def replaced(chosen: Policy, **parts: Any) -> Policy:
    """A policy with some other parts."""
    whole: dict[str, Any] = {**chosen.parts, **parts}
    return Policy(**whole, refresh=chosen.refresh, name=chosen.name)


def ranked(
    index: Tensor,
    groups: Tensor | None = None,
    slack: Tensor | float = 0.0,
    bounds: tuple[Tensor, Tensor] | None = None,
    pick_counts: Tensor | None = None,
) -> Ranked:
    """Candidates of a given index, (B, N, K), as a selector sees them; by default of one group."""
    b, n, k = index.shape
    groups = torch.zeros(b, n, k, dtype=torch.int64) if groups is None else groups.expand(b, n, k)
    number = max(int(groups.max()), 0) + 1 if pick_counts is None else pick_counts.shape[2]
    problem = Problem(1, number, Streams(5, range(b)))
    models = Models(LinearModel(index.new_zeros(b, n, 1)), np.arange(n))
    history = History.empty(problem).with_pools(index.new_zeros(b, n, k, 1), groups)
    scored = Scored(history, Full().plan(np.arange(1, n + 1)), models)
    return Ranked(scored, Approximate(index, slack), bounds, pick_counts)


def read_state(path: Path) -> Any:
    """The nested data of a file that the package saved."""
    return state.read(path)


def write_state(content: Any, path: Path) -> None:
    """Writes nested data as the package would, every checksum right.

    Raises:
        FairbanditError: no file can hold it.
    """
    try:
        state.write(state.packed(content), path)
    except (TypeError, ValueError, OverflowError) as error:
        raise FairbanditError(f"no file can hold this: {error}") from error


def environment(name: str = "simulation", **parameters: Any) -> Environment:
    made = build({"name": name, **parameters})
    assert isinstance(made, Environment)
    return made


def played(
    chosen: Policy, world: Environment, rounds: int, replicas: Any = 1, seed: int = 0, **engine: Any
) -> list[Played]:
    """All rounds, piece by piece."""
    numbers = range(replicas) if isinstance(replicas, int) else replicas
    return list(Engine(chosen, world, rounds=rounds, seed=seed, replicas=numbers, **engine).play())


def actions(*args: Any, **options: Any) -> Tensor:
    """Every decision, (B, T), or (B, T, m); the arguments are those of `played`."""
    return torch.cat([part.actions for part in played(*args, **options)], 1)


def draws(world: Environment, rounds: int, seed: int, replica: int = 0) -> Draws:
    """One replica's draws as NumPy arrays, for the literal loop."""
    streams = Streams(seed, [replica])
    world.bind(streams)
    pools = world.pools(1, rounds)
    present = pools.groups[0].numpy() >= 0
    unseen, order = np.zeros((2, *present.shape))  # by the candidate's number among all candidates
    for drawn, purpose in ((unseen, Purpose.RANK), (order, Purpose.ORDER)):
        drawn[present] = streams[purpose].runs([0], [int(present.sum())]).numpy()
    return Draws(
        contexts=pools.contexts[0].numpy(),
        groups=pools.groups[0].numpy(),
        rewards=pools.rewards[0].numpy(),
        gamma=streams[Purpose.ESTIMATOR].normal(1, rounds, world.features)[0].numpy(),
        unseen=unseen,
        ties=streams[Purpose.SELECTOR].uniform(1, rounds, 1)[0, :, 0].numpy(),
        order=order,
    )


leggauss = cache(np.polynomial.legendre.leggauss)  # the recursion asks for few, thousands of times


def weighted_uniforms_cdf(weights: list[float], offset: float, value: float) -> float:
    """P(offset + Σ wᵢUᵢ ≤ value), w ≥ 0, by repeated integration of the piecewise polynomial.

    Independent of the package: integrates over the last uniform with Gauss-Legendre quadrature
    on the polynomial pieces, recursively.
    """
    terms = [w for w in weights if w > 0]
    value -= offset
    if not terms:
        return float(value >= 0)
    *rest, last = terms
    if not rest:
        return min(max(value / last, 0.0), 1.0)
    corners = {0.0, 1.0}
    for bits in range(1 << len(rest)):
        edge = (value - sum(w for i, w in enumerate(rest) if bits >> i & 1)) / last
        if 0 < edge < 1:
            corners.add(edge)
    nodes, weights_ = leggauss(len(rest) + 1)
    total, ordered = 0.0, sorted(corners)
    for low, high in pairwise(ordered):
        for node, weight in zip(nodes, weights_, strict=True):
            u = low + (high - low) * (node + 1) / 2
            total += (high - low) / 2 * weight * weighted_uniforms_cdf(rest, 0.0, value - last * u)
    return total


@cache  # encoding it takes longer than some hundred rounds
def census(kind: str) -> Table:
    """A census environment over the packaged sample."""
    made = environment(kind, root="sample")
    assert isinstance(made, Table)
    return made


KINDS = ("simulation", "census_gender", "census_ethnicity")
"""Environments in which policies are compared with others and with loops."""


def world_of(kind: str) -> Environment:
    """One of the three environments."""
    return environment() if kind == "simulation" else census(kind)


def blocks(policy: Policy, rounds: int) -> Iterator[tuple[int, int]]:
    """Stretches of rounds, n+1 … m, that can each be decided once the n before are played."""
    played = 0
    while played < rounds:
        reads = policy.plan(played + 1, rounds - played).reads
        end = played + int((reads <= played).sum())
        yield played, end
        played = end

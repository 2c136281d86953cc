"""Long runs that show what the tests show in small: all ways to count decide alike, digits stay.

`python -m tests.exactness` plays `fair_greedy` with the sorted segment and without it: 20,000
rounds of five seeds at every injected noise ρ and regularization λ, in each environment, one line a
setting.
`python -m tests.exactness --blocks` plays all policies in blocks of rounds and one round at a time,
20,000 rounds of five replicas at the same ρ and λ, in each environment, one line a setting.
`python -m tests.exactness --precision` plays a million rounds of `oful` and says how far the kept
inverse times V is from the identity. All take minutes to hours and are no part of the test suite,
whose tests/test_exactness.py, tests/test_fixed_point.py and tests/parts/test_precision.py do the
same in small.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from enum import Enum
from itertools import product
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor

from fairbandit import Engine, Policy, build
from fairbandit.counting import DenseStore, sorted_segment
from fairbandit.counting.sorted_segment import Asked, Costs, SortedCounts, SortedSegment
from fairbandit.environments import Environment
from fairbandit.parts import Candidates, Rank, Ridge
from tests import support

NOISES = (1e-8, 0.1, 1.0)
REGULARIZATIONS = (1e-8, 0.1, 10.0)
GRID = list(product(NOISES, REGULARIZATIONS))


def free(asked: Asked, width: int, chunked: bool) -> Costs:
    """As if searching cost nothing beside a scan, and sorting little."""
    return Costs(entry=1.0, again=1e-9, search=0.0, sort=0.6)


class Way(Enum):
    """How past contexts are counted."""

    dense = "by the dense reference"
    scanned = "by scanning"
    searched = "by the sorted segment where it pays"
    forced = "by the sorted segment wherever it can"


class Decisions(NamedTuple):
    """What was decided, and how.

    Attributes:
        actions: of every seed's replicas, (S·B, T).
        ranked: what each decision was made by, (S·B, T', K); T' leaves out the first rounds, in
            which the policy has learned nothing.
        asked: how often the sorted segment was asked.
        answered: how often it gave counts.
        sortings: how often a segment was sorted.
        seconds: how long the play took.
    """

    actions: Tensor
    ranked: Tensor
    asked: int
    answered: int
    sortings: int
    seconds: float


def fair_greedy(noise: float, regularization: float) -> dict[str, Any]:
    """The policy as plain data."""
    estimator = {"name": "ridge", "noise": noise, "regularization": regularization}
    return {"split": "halves", "estimator": estimator, "rank": "empirical_cdf"}


def decisions(
    settings: Mapping[str, Any],
    world: Environment,
    rounds: int,
    seeds: Sequence[int],
    way: Way,
    replicas: Any = 1,
    **engine: Any,
) -> Decisions:
    """Plays a policy, one seed after another.

    Args:
        settings: the policy, as `build` takes it.
        world: the environment.
        rounds: T.
        seeds: S of them, one run each.
        way: how past contexts are counted.
        replicas: of each run.
        engine: other arguments of `Engine`.
    """
    counted = {"asked": 0, "answered": 0, "sortings": 0}
    ask, sort, rank = SortedCounts.count_le, SortedSegment.__init__, Rank.index
    seen: dict[int, Tensor] = {}

    def count_le(self: SortedCounts, *given: Any, **named: Any) -> Tensor | None:
        counted["asked"] += 1
        counts = None if way is Way.scanned else ask(self, *given, **named)
        counted["answered"] += counts is not None
        return counts

    def sorting(self: SortedSegment, *given: Any, **named: Any) -> None:
        counted["sortings"] += 1
        sort(self, *given, **named)

    def index(self: Rank, candidates: Candidates) -> Tensor:
        found = rank(self, candidates)
        seen.update(enumerate(found.unbind(1), candidates.first))  # a round's last counts
        return found

    with ExitStack() as stack:
        stack.enter_context(patch.object(Rank, "index", index))
        stack.enter_context(patch.object(SortedCounts, "count_le", count_le))
        stack.enter_context(patch.object(SortedSegment, "__init__", sorting))
        if way is Way.dense:
            stack.enter_context(patch("fairbandit.parts.past.ContextStore", DenseStore))
        if way is Way.forced:
            stack.enter_context(patch.object(Costs, "of", free))
            stack.enter_context(patch.object(sorted_segment, "SHORTEST", 16))
        began = time.perf_counter()
        actions, indices = [], []
        for seed in seeds:
            chosen = build(settings)
            assert isinstance(chosen, Policy)
            actions.append(support.actions(chosen, world, rounds, replicas, seed, **engine))
            indices.append(torch.stack([seen[t] for t in sorted(seen)], 1))
            seen.clear()
    took = time.perf_counter() - began
    return Decisions(torch.cat(actions), torch.cat(indices), **counted, seconds=took)


def grid(
    worlds: Iterable[tuple[str, Callable[[], Environment]]], rounds: int, seeds: Sequence[int]
) -> int:
    """Plays every setting in every world both ways, and prints a line each.

    Returns:
        In how many rounds decisions, or any candidate's rank, differed.
    """
    print(f"{rounds} rounds of {len(seeds)} seeds, fair_greedy: scanning, the sorted segment")
    print("where it pays and wherever it can; seconds, and how many queries it answered")
    print(f"{'environment':17}{'noise':>7}{'lambda':>8}{'differ':>8}{'ranks':>7}", end="")
    print(
        f"{'scan s':>9}{'sorted s':>9}{'forced s':>9}{'where it pays':>15}{'forced':>13}",
        flush=True,
    )
    total = 0
    for name, make in worlds:
        world = make()
        for noise, regularization in GRID:
            settings = fair_greedy(noise, regularization)
            ways = [decisions(settings, world, rounds, seeds, way) for way in list(Way)[1:]]
            differ = [sum(int((way.actions != ways[0].actions).sum()) for way in ways)]
            differ += [sum(int((way.ranked != ways[0].ranked).any(2).sum()) for way in ways)]
            total += sum(differ)
            print(f"{name:17}{noise:7g}{regularization:8g}{differ[0]:8}{differ[1]:7}", end="")
            print("".join(f"{way.seconds:9.1f}" for way in ways), end="")
            used = [f"{way.answered} of {way.asked}" for way in ways[1:]]
            print(f"{used[0]:>15}{used[1]:>13}", flush=True)
    print(f"rounds decided or ranked differently: {total}")
    return total


def in_blocks(
    worlds: Iterable[tuple[str, Callable[[], Environment]]], rounds: int, replicas: int
) -> int:
    """Plays every policy in every world in blocks and round by round, and prints a line each.

    Returns:
        In how many rounds decisions differed.
    """
    print(f"{rounds} rounds of {replicas} replicas, in blocks of rounds and one round at a time")
    print(f"{'environment':17}{'policy':27}{'noise':>7}{'lambda':>8}{'differ':>8}", end="")
    print(f"{'blocks s':>10}{'alone s':>9}{'decided/T':>11}", flush=True)
    total = 0
    for name, make in worlds:
        world = make()
        for policy in support.PRESETS:
            plain = not isinstance(support.policy(policy).estimator, Ridge)
            for noise, regularization in [(None, None)] if plain else GRID:
                chosen = {"noise": noise, "regularization": regularization}
                given = {} if plain else chosen
                ours, seconds, decided = play(
                    support.policy(policy, **given), world, rounds, replicas, None
                )
                alone, longer, _ = play(support.policy(policy, **given), world, rounds, replicas, 1)
                differ = int((ours != alone).sum())
                total += differ
                print(f"{name:17}{policy:27}{noise or '':>7}{regularization or '':>8}", end="")
                print(f"{differ:8}{seconds:10.1f}{longer:9.1f}{decided / rounds:11.2f}", flush=True)
    print(f"rounds decided differently: {total}")
    return total


def play(
    policy: Policy, world: Environment, rounds: int, replicas: int, at_once: int | None
) -> tuple[Tensor, float, int]:
    """Every decision, (B, T), the seconds that it took, and how often rounds were decided."""
    began = time.perf_counter()
    numbers = range(replicas)
    run = Engine(policy, world, rounds=rounds, seed=0, replicas=numbers, at_once=at_once)
    actions = torch.cat([played.actions for played in run.play()], 1)
    return actions, time.perf_counter() - began, run.decisions


def identity_error(estimator: Ridge) -> float:
    """The largest entry of |V⁻¹V − I| where the estimator is; 0 where it keeps no inverse."""
    state = estimator.state()
    if not state["goes_on"]:
        return 0.0
    (V, _), inverse = support.ridge_sums(state), state["inverse"]
    assert isinstance(inverse, Tensor)
    return float((inverse @ V - torch.eye(V.shape[1], dtype=V.dtype)).abs().max())


def precision(rounds: int, every: int = 1 << 17) -> float:
    """Plays `oful` on the simulation and prints how far V⁻¹V was from the identity.

    The kept inverse is looked at after every piece of rounds, just before it is made anew.

    Returns:
        The largest entry of |V⁻¹V − I| at any time.
    """
    chosen, worst, began = support.policy("oful", regularization=0.1), 0.0, time.perf_counter()
    estimator = chosen.estimator
    assert isinstance(estimator, Ridge)
    world = support.environment("simulation")
    for played in Engine(chosen, world, rounds=rounds, seed=0, replicas=[0]).play():
        worst = max(worst, identity_error(estimator))
        if played.last % every == 0 or played.last == rounds:
            took = time.perf_counter() - began
            print(f"oful, {played.last} rounds, {took:.0f} s: ", end="")
            print(f"largest |inverse V - I| so far {worst:.2e}", flush=True)
    return worst


def main() -> None:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--precision", action="store_true", help="a long run of oful instead")
    parser.add_argument("--blocks", action="store_true", help="blocks and single rounds instead")
    parser.add_argument("--rounds", type=int, help="20,000, or a million for the precision")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="+", metavar="ENVIRONMENT", help="some of the environments")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.precision:
        raise SystemExit(precision(given.rounds or 1_000_000) > 1e-6)
    worlds: list[tuple[str, Callable[[], Environment]]] = [("simulation", support.environment)]
    worlds += [
        (kind, lambda kind=kind: support.census(kind))  # type: ignore[misc]
        for kind in ("census_gender", "census_ethnicity")
    ]
    if given.only:
        worlds = [world for world in worlds if world[0] in given.only]
    rounds = given.rounds or 20_000
    if given.blocks:
        raise SystemExit(in_blocks(worlds, rounds, given.seeds) > 0)
    raise SystemExit(grid(worlds, rounds, range(given.seeds)) > 0)


if __name__ == "__main__":
    main()

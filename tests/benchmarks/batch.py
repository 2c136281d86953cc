"""Many replicas at once, beside the paper-literal loop on the same draws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from statistics import mean
from typing import Any

import numpy as np

from fairbandit.runs.execute import THREADS
from tests import literal, support
from tests.adversary import Flipping
from tests.benchmarks.measure import WARM, median, threads, timed
from tests.benchmarks.rows import Measure, Row, Target
from tests.benchmarks.worlds import SIMULATION, Bench, Scale, built, ethnicity, truth

GUESSES = Target(Measure.longer, 1.3)  # for wrong guesses, and for shortlists
LEARNERS = ("greedy", "oful", "fair_greedy_oracle_cdf")


@dataclass(frozen=True)
class Size:
    """How many rounds are played, and how often what is timed."""

    rounds: int
    ethnic: int  # rounds of the ethnicity shape
    many: int  # replicas where there are many
    many_rounds: int
    seeds: int  # replicas that the loop plays, in the first match; the mean stands for the rest
    times: int  # the engine is timed so often, and so many replicas of the loop in other matches


SIZES = {
    Scale.full: Size(5000, 2500, 200, 5000, seeds=10, times=3),
    Scale.quick: Size(5000, 2500, 200, 500, seeds=3, times=1),
    Scale.tiny: Size(60, 60, 3, 30, seeds=2, times=2),
}


@dataclass(frozen=True)
class Match:
    """A policy in a world, played by the engine and by the loop."""

    policy: str
    world: str
    config: dict[str, Any]
    rounds: int
    replicas: int
    seeds: int
    times: int
    least: float  # how many times faster the engine is to be
    threads: int = THREADS

    @property
    def name(self) -> str:
        name = f"{self.policy}, {self.world}, {self.rounds:,} rounds × {self.replicas}"
        return name if self.threads == THREADS else f"{name}, threads={self.threads}"


def batch(bench: Bench) -> Iterator[Row]:
    """The engine at 10 and at 200 replicas."""
    stated = {match.name for match in _matches(bench, SIZES[Scale.full])}
    for match in _matches(bench, SIZES[bench.scale]):
        bench.say(match.name)
        ours, loop = compare(match)
        few = match.seeds < match.replicas  # the loop is then timed in these alone
        yield Row(
            match.name,
            ours,
            "literal loop",
            loop,
            targets=(Target(Measure.faster, match.least),),
            stated=match.name in stated,
            note=f"loop: {match.seeds} of {match.replicas} replicas timed" if few else "",
        )
    bench.say("every guess wrong")
    yield _against_guesses(SIZES[bench.scale])
    for name in ("fair_greedy", "greedy"):
        bench.say(f"{name}, shortlists")
        yield _shortlists(name, SIZES[bench.scale])


def _matches(bench: Bench, size: Size) -> Iterator[Match]:
    seeds, times, census = size.seeds, size.times, ethnicity(bench.folder)
    paper = Match("fair_greedy", "simulation", SIMULATION, size.rounds, 10, seeds, times, least=30)
    yield paper
    yield replace(paper, threads=2)
    yield Match("fair_greedy", "ethnicity shape", census, size.ethnic, 10, times, times, least=8)
    for replicas in (1, 10):
        for name in LEARNERS:
            yield Match(
                name, "simulation", SIMULATION, size.rounds, replicas, times, times, least=2.5
            )
    for name in LEARNERS:
        yield Match(name, "simulation", SIMULATION, size.many_rounds, size.many, times, 1, least=10)


def _against_guesses(size: Size) -> Row:
    """Greedy where every guess of a later pick is wrong, in blocks and one round at a time."""

    def play(at_once: int | None) -> float:
        greedy, work = support.policy("greedy"), partial(support.actions, at_once=at_once)
        return timed(work, greedy, Flipping(), size.rounds, 10)[1]

    with threads(THREADS):
        ours, alone = zip(*((play(None), play(1)) for _ in range(size.times + 1)), strict=True)
    name, targets = f"greedy, every guess wrong, {size.rounds:,} rounds × 10", (GUESSES,)
    beside = "one round at a time", median(alone[1:])
    return Row(name, median(ours[1:]), *beside, longer=True, targets=targets)


def _shortlists(name: str, size: Size) -> Row:
    """A policy that picks three of twelve candidates, and one of them."""
    world = support.environment(groups=12, theta=[*map(float, range(1, 13)), 1.0])

    def play(picks: int) -> float:
        work = partial(support.actions, picks=picks)
        return timed(work, support.policy(name), world, size.rounds, 10)[1]

    with threads(THREADS):
        three, one = zip(*((play(3), play(1)) for _ in range(size.times + 1)), strict=True)
    name, targets = f"{name}, 3 of 12 picks, {size.rounds:,} rounds × 10", (GUESSES,)
    return Row(name, median(three[1:]), "1 pick", median(one[1:]), longer=True, targets=targets)


def compare(match: Match) -> tuple[float, float]:
    """Seconds of the engine and of the loop, turn about, for all replicas; they must agree.

    Raises:
        AssertionError: the loop decides otherwise than the engine, so a ratio means nothing.
    """
    chosen, world = support.policy(match.policy), built(match.config)
    plays, loops = [], []
    with threads(match.threads):
        support.actions(chosen, world, min(WARM, match.rounds), match.replicas)
        play = partial(support.actions, chosen, world, match.rounds, match.replicas)
        for turn in range(max(match.times, match.seeds)):
            if turn < match.times:
                plays.append(timed(play))
            if turn < match.seeds:
                replica = turn % match.replicas
                draws = support.draws(world, match.rounds, 0, replica=replica)  # not timed
                actions, taken = timed(literal.play, match.policy, draws, truth(world))
                np.testing.assert_array_equal(plays[0][0][replica].numpy(), actions)
                loops.append(taken)
    return median(taken for _, taken in plays), mean(loops) * match.replicas

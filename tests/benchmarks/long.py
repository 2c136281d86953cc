"""How time and memory grow with rounds and with replicas, each run in a process of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fairbandit.runs.execute import execute
from tests.benchmarks.measure import WARM, alone, median, timed
from tests.benchmarks.rows import Measure, Row, Target
from tests.benchmarks.worlds import SIMULATION, Bench, Scale, ethnicity

GROWTH = Target(Measure.longer, 32)
"""From one size to the next, ten times as many rounds."""

LONGEST = 1_000_000
LIMITS = (Target(Measure.seconds, 600), Target(Measure.gigabytes, 6))
"""What the longest run may take."""

TIMES = 3


SIZES: dict[Scale, tuple[tuple[int, ...], tuple[int, ...]]] = {
    Scale.full: ((10_000, 100_000, 1_000_000), (10_000, 100_000)),
    Scale.quick: ((10_000, 100_000), ()),
    Scale.tiny: ((20, 40), (20,)),
}
"""Rounds of the simulation and of the ethnicity shape, each some times the ones before."""

REPLICAS = {Scale.full: (5_000, 10_000), Scale.quick: (500,), Scale.tiny: (2,)}


def long(bench: Bench) -> Iterator[Row]:
    """fair_greedy, one replica, written to files as the command does."""
    rounds, ethnic = SIZES[bench.scale]
    yield from _growth(bench, "simulation", SIMULATION, rounds)
    yield from _growth(bench, "ethnicity shape", ethnicity(bench.folder), ethnic)


def _growth(
    bench: Bench, world: str, config: dict[str, Any], sizes: tuple[int, ...]
) -> Iterator[Row]:
    beside, before = "", None
    for rounds in sizes:
        name = f"fair_greedy, {world}, {rounds:,} rounds × 1"
        bench.say(name)
        seconds, peak = alone(run, config, "fair_greedy", rounds, 1, bench.folder)
        yield Row(
            name,
            seconds,
            beside,
            before,
            longer=True,
            peak=peak,
            targets=(GROWTH,) * (before is not None) + LIMITS * (rounds == LONGEST),
            stated=rounds >= 100_000,
        )
        beside, before = f"{rounds:,} rounds", seconds


def memory(bench: Bench) -> Iterator[Row]:
    """Many replicas of short runs: they play in batches, so that memory does not grow with them."""
    for policy in ("fair_greedy", "oful"):
        beside, before = "", None
        for replicas in REPLICAS[bench.scale]:
            name = f"{policy}, simulation, 500 rounds × {replicas:,}"
            bench.say(name)
            seconds, peak = alone(run, SIMULATION, policy, 500, replicas, bench.folder)
            yield Row(name, seconds, beside, before, longer=True, peak=peak)
            beside, before = f"{replicas:,} replicas", seconds


def run(config: dict[str, Any], policy: str, rounds: int, replicas: int, folder: Path) -> float:
    """Seconds of a run with its files, warmed up; the median of some if it is short."""

    def once(length: int) -> float:
        with tempfile.TemporaryDirectory(dir=folder) as name:
            given = {"policy": {"name": policy}, "environment": config, "replicas": replicas}
            return timed(execute, given | {"rounds": length}, Path(name))[1]

    once(min(WARM, rounds))
    first = once(rounds)
    return first if first > 2 else median([first, *(once(rounds) for _ in range(TIMES - 1))])

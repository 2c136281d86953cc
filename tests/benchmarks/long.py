"""Long runs: how time and memory grow with the rounds, each run in a process of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairbandit.run.execute import execute
from tests.benchmarks.measure import WARM, alone, median, timed
from tests.benchmarks.rows import Measure, Row, Target
from tests.benchmarks.worlds import SIMULATION, Bench, Scale, ethnicity

GROWTH = Target(Measure.longer, 32)
"""From one size to the next, ten times as many rounds."""

LONGEST = 1_000_000
LIMITS = (Target(Measure.seconds, 600), Target(Measure.gigabytes, 6))
"""What the longest run may take."""

TIMES = 3


@dataclass(frozen=True)
class Size:
    """Rounds, each some times the ones before."""

    simulation: tuple[int, ...]
    ethnicity: tuple[int, ...]


SIZES = {
    Scale.full: Size((10_000, 100_000, 1_000_000), (10_000, 100_000)),
    Scale.quick: Size((10_000, 100_000), ()),
    Scale.tiny: Size((20, 40), (20,)),
}


def long(bench: Bench) -> Iterator[Row]:
    """fair_greedy, one replica, written to files as the command does."""
    size = SIZES[bench.scale]
    yield from _growth(bench, "simulation", SIMULATION, size.simulation)
    yield from _growth(bench, "ethnicity shape", ethnicity(bench.folder), size.ethnicity)


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


def run(config: dict[str, Any], policy: str, rounds: int, replicas: int, folder: Path) -> float:
    """Seconds of a run with its files, warmed up; the median of some if it is short."""

    def once(length: int) -> float:
        with tempfile.TemporaryDirectory(dir=folder) as name:
            given = {"policy": {"name": policy}, "environment": config, "replicas": replicas}
            return timed(execute, given | {"rounds": length}, Path(name))[1]

    once(min(WARM, rounds))
    first = once(rounds)
    return first if first > 2 else median([first, *(once(rounds) for _ in range(TIMES - 1))])

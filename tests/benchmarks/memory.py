"""Many replicas of short runs: they play in batches, so that memory does not grow with them."""

from __future__ import annotations

from collections.abc import Iterator

from tests.benchmarks.long import run
from tests.benchmarks.measure import alone
from tests.benchmarks.rows import Row
from tests.benchmarks.worlds import SIMULATION, Bench, Scale

ROUNDS = 500

SIZES = {Scale.full: (5_000, 10_000), Scale.quick: (500,), Scale.tiny: (2,)}
"""Replicas."""


def memory(bench: Bench) -> Iterator[Row]:
    """fair_greedy and oful, with files, each in a process of its own."""
    for policy in ("fair_greedy", "oful"):
        beside, before = "", None
        for replicas in SIZES[bench.scale]:
            name = f"{policy}, simulation, {ROUNDS} rounds × {replicas:,}"
            bench.say(name)
            seconds, peak = alone(run, SIMULATION, policy, ROUNDS, replicas, bench.folder)
            yield Row(name, seconds, beside, before, longer=True, peak=peak)
            beside, before = f"{replicas:,} replicas", seconds

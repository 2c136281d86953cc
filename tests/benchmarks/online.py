"""An Agent that decides one pool at a time, after a short and after a long history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tests.benchmarks.measure import alone, median, quantile, threads, timed
from tests.benchmarks.players import MissingError, Ours, Player, Vowpal, VowpalText, pace
from tests.benchmarks.rows import Measure, Row, Target
from tests.benchmarks.worlds import Bench, Scale, built, ethnicity, pools

POLICY = "fair_greedy"

VOWPAL = (Target(Measure.longer, 4),)
GROWTH = (Target(Measure.longer, 12),)

AT_ONCE = 10_000
"""Rounds handed to `observe` at a time."""


@dataclass(frozen=True)
class Size:
    """Rounds of history, from short to long, and decisions timed after each."""

    histories: tuple[int, ...]
    decisions: int


SIZES = {
    Scale.full: Size((10_000, 1_000_000), 2_000),
    Scale.quick: Size((10_000, 100_000), 500),
    Scale.tiny: Size((50, 100), 20),
}


@dataclass(frozen=True)
class Timings:
    """What a process measured.

    Attributes:
        filling: seconds that `observe` took in all.
        agent: seconds of each decision, act and update.
        vowpal: the same of Vowpal Wabbit on the same pools, used as its tutorials use it; empty if
            it is not installed.
        fastest: the same, used in the fastest way.
        note: why something is not there.
    """

    filling: float
    agent: list[float]
    vowpal: list[float]
    fastest: list[float]
    note: str


def online(bench: Bench) -> Iterator[Row]:
    """Act plus update on pools of ethnicity's shape, each history in a process of its own."""
    size, config = SIZES[bench.scale], ethnicity(bench.folder)
    first: tuple[str, float] | None = None
    for history in size.histories:
        name = f"Agent, act + update after {history:,} rounds"
        bench.say(name)
        found, peak = alone(measured, config, history, size.decisions)
        stated = history in SIZES[Scale.full].histories
        row = partial(Row, seconds=median(found.agent), longer=True, peak=peak, stated=stated)
        if first is None:
            yield row(f"{name}, median", targets=VOWPAL, note=found.note, **_vowpal(found, 0.5))
            if found.fastest:
                fastest = median(found.fastest)
                yield row("the same", beside=Vowpal.name, yardstick=fastest)
            first = f"after {history:,}", median(found.agent)
        else:
            yield row(f"{name}, median", beside=first[0], yardstick=first[1], targets=GROWTH)
        yield Row(f"{name}, p99", quantile(found.agent, 0.99), longer=True, **_vowpal(found, 0.99))
        yield Row(f"Agent, observe {history:,} rounds", found.filling)


def _vowpal(found: Timings, share: float) -> dict[str, Any]:
    if not found.vowpal:
        return {}
    return {"beside": VowpalText.name, "yardstick": quantile(found.vowpal, share)}


def measured(config: dict[str, Any], history: int, decisions: int) -> Timings:
    """Fills an agent's history, then times it and Vowpal Wabbit by turns."""
    world = built(config)
    draw = np.random.default_rng(0)
    ours, filling = Ours(POLICY, world.features, len(world.group_names)), 0.0
    players: list[Player] = [ours]
    note = ""
    try:
        players += [VowpalText(world.features), Vowpal(world.features)]
    except MissingError as error:
        note = str(error)
    with threads():
        for first in range(1, history + 1, AT_ONCE):
            count = min(AT_ONCE, history + 1 - first)
            past = pools(world, count, first)
            actions = draw.integers(world.places, size=count)
            rewards = past.rewards[0].numpy()[np.arange(count), actions]
            given = past.contexts[0].numpy(), past.groups[0].numpy(), actions, rewards
            filling += timed(ours.agent.observe, *given)[1]
        taken = pace(players, pools(world, decisions, history + 1))
    decided, text, fastest = [*taken, [], []][:3]
    return Timings(filling, decided, text, fastest, note)

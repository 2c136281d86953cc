"""An Agent that decides one pool at a time, after a short and after a long history."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fairbandit import Agent
from tests.benchmarks.measure import alone, median, quantile, threads, timed
from tests.benchmarks.players import MissingError, Ours, Player, Vowpal, VowpalText, pace
from tests.benchmarks.rows import Measure, Row, Target
from tests.benchmarks.worlds import Bench, Scale, built, ethnicity, pools

POLICY = "fair_greedy"

VOWPAL = (Target(Measure.longer, 4),)
GROWTH = (Target(Measure.longer, 12),)
LOGGED = (Target(Measure.beyond, 0.00015),)
TOGETHER = (Target(Measure.faster, 10),)

AT_ONCE = 10_000
"""Rounds handed to `observe` at a time."""


SIZES = {
    Scale.full: ((10_000, 1_000_000), 2_000),
    Scale.quick: ((10_000, 100_000), 500),
    Scale.tiny: ((50, 100), 20),
}
"""Rounds of history, from short to long, and decisions timed after each."""


class Timings(NamedTuple):
    """What a process measured, in seconds; Vowpal Wabbit's are empty if it is not installed."""

    filling: float  # of `observe` in all
    agent: list[float]  # of each decision, act and update
    vowpal: list[float]  # the same on the same pools, used as its tutorials use it
    fastest: list[float]  # the same, used in the fastest way
    note: str  # why something is not there


def online(bench: Bench) -> Iterator[Row]:
    """Act plus update on pools of ethnicity's shape, each history in a process of its own."""
    (histories, decisions), config = SIZES[bench.scale], ethnicity(bench.folder)
    first: tuple[str, float] | None = None
    for history in histories:
        name = f"Agent, act + update after {history:,} rounds"
        bench.say(name)
        found, peak = alone(measured, config, history, decisions)
        stated = history in SIZES[Scale.full][0]
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
    bench.say("Agent with a log")
    plain, logged = with_and_without_log(bench.folder, decisions)
    name = "Agent with a log, act + update, 10 candidates × 8 features, median"
    yield Row(name, logged, "without a log", plain, longer=True, targets=LOGGED)
    bench.say("Agent, many pools at once")
    one, many = alone_and_together(decisions // 2)
    name = f"Agent, act_many, {decisions // 2:,} pools of 10 candidates × 17 features"
    yield Row(name, many, "single calls", one, targets=TOGETHER, stated=decisions == 2_000)


def with_and_without_log(folder: Path, decisions: int) -> tuple[float, float]:
    """Median seconds of a processor for a decision and its reward without a log and with one.

    They are measured by turns; other processes do not count.
    """
    draws = np.random.default_rng(0)
    log = folder / "decisions.jsonl"
    log.unlink(missing_ok=True)
    agents = [Agent.from_config(POLICY, features=8, groups=4, log=to) for to in (None, log)]
    taken: tuple[list[float], list[float]] = [], []

    with threads():
        for _ in range(decisions):
            pool = draws.normal(size=(10, 8)), draws.integers(0, 4, 10)
            for agent, times in zip(agents, taken, strict=True):
                start = time.process_time()
                agent.act(*pool)
                agent.update(1.0)
                times.append(time.process_time() - start)
    return median(taken[0]), median(taken[1])


def alone_and_together(pools: int) -> tuple[float, float]:
    """Median seconds of a processor for pools in single calls and at once, after 300 rewards."""
    draws, taken = np.random.default_rng(0), list[tuple[float, float]]()
    contexts, groups = (
        draws.normal(size=(300 + pools, 10, 17)),
        draws.integers(0, 4, (300 + pools, 10)),
    )
    with threads():
        for _ in range(3):
            agents = [Agent.from_config(POLICY, features=17, groups=4) for _ in range(2)]
            for agent in agents:
                for x, labels in zip(contexts[:300], groups[:300], strict=True):
                    agent.update(float(x[agent.act(x, labels).candidate].sum()))
            start = time.process_time()
            for x, labels in zip(contexts[300:], groups[300:], strict=True):
                agents[0].act(x, labels)
            middle = time.process_time()
            agents[1].act_many(contexts[300:], groups[300:])
            taken.append((middle - start, time.process_time() - middle))
    one, many = zip(*taken, strict=True)
    return median(one), median(many)


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

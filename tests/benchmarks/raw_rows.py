"""Raw rows: the encoder by the number of rows, and `act` on them beside `act` on arrays."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from fairbandit import Agent, Encoder
from tests.benchmarks.measure import median, threads
from tests.benchmarks.rows import Measure, Row, Target
from tests.benchmarks.worlds import Bench, Scale

LIMITS = {1: 0.0003, 4: 0.0005, 100: 0.005}
"""The seconds in which so many rows of eight columns are to be encoded."""

RAW = (Target(Measure.longer, 1.4),)

REPEATS = {Scale.full: 500, Scale.quick: 200, Scale.tiny: 10}


def people(rows: int) -> pd.DataFrame:
    """A table of eight columns of numbers, codes, texts and truth values, and a reward."""
    draws = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "sex": draws.choice(["f", "m"], rows),
            "age": draws.integers(18, 80, rows),
            "test": draws.normal(size=rows),
            "hours": draws.integers(5, 50, rows),
            "job": draws.choice(["01", "02", "10"], rows),
            "town": draws.choice(["north", "south"], rows),
            "citizen": draws.choice([True, False], rows),
            "grade": draws.normal(size=rows),
            "pay": draws.normal(size=rows),
        }
    )


def raw_rows(bench: Bench) -> Iterator[Row]:
    """Encoding of 1, 4 and 100 rows as mappings and as a frame, and decisions about raw rows."""
    table, repeats = people(1_000), REPEATS[bench.scale]
    encoder = Encoder.from_table(table, group="sex", reward="pay")
    for count, limit in LIMITS.items():
        frame = table.head(count).drop(columns="pay")
        name, target = f"Encoder, {count} rows of 8 columns", Target(Measure.seconds, limit)
        bench.say(name)
        for form, rows in (("mappings", frame.to_dict("records")), ("a frame", frame)):
            seconds = median(by_turns([partial(encoder, rows)], repeats)[0])
            yield Row(f"{name}, {form}", seconds, targets=(target,))
    bench.say("Agent on raw rows")
    raw, arrays = raw_and_arrays(encoder, table, repeats)
    name = "Agent, act on 10 raw rows of 8 columns, median"
    yield Row(name, raw, "act on arrays", arrays, longer=True, targets=RAW)


def by_turns(calls: Sequence[Callable[[], Any]], repeats: int) -> list[list[float]]:
    """Seconds of each call, in turns whose order alternates."""
    taken: list[list[float]] = [[] for _ in calls]
    for turn in range(repeats):
        for at in range(len(calls))[:: 1 if turn % 2 else -1]:
            start = time.perf_counter()
            calls[at]()
            taken[at].append(time.perf_counter() - start)
    return taken


def raw_and_arrays(encoder: Encoder, table: pd.DataFrame, repeats: int) -> tuple[float, float]:
    """Median seconds of two agents for the same pools, given as mappings and as arrays."""
    draws = np.random.default_rng(0)
    agents = [Agent.from_config("fair_greedy", features=encoder) for _ in range(2)]
    taken: tuple[list[float], list[float]] = [], []
    with threads():
        for _ in range(repeats):
            pool = table.iloc[draws.integers(0, len(table), 10)].drop(columns="pay")
            rows, contexts, labels = (
                pool.to_dict("records"),
                encoder.encode(pool),
                pool["sex"].tolist(),
            )
            calls = [partial(agents[0].act, rows), partial(agents[1].act, contexts, labels)]
            for own, times in zip(taken, by_turns(calls, 1), strict=True):
                own += times
            for agent in agents:
                agent.update(1.0)
    return median(taken[0]), median(taken[1])

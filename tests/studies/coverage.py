"""`python -m tests.studies.coverage`: bias and coverage of every interval, over many logs.

Prints a Markdown table. Each row is a world, a logger and a number of decisions, and each column a
measure and an estimator: the mean of the estimate less the truth, with its standard error, and how
many of the intervals of 95 % hold the truth. The truth is that of the policies that were trained on
the log's parts, on pools of their own.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from itertools import product
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
from scipy.stats import binom

from fairbandit import Agent, build
from fairbandit.environments import Environment
from fairbandit.evaluation import evaluate
from fairbandit.evaluation.frozen import plan
from tests.evaluation.worlds import LOGGERS, Fresh, fresh, logged, truth

WORLDS: dict[str, dict[str, Any]] = {
    "simulation": {"name": "simulation"},
    "census": {"name": "census_ethnicity", "root": "sample"},
}

CELLS = ["uniform", "ε-greedy", "adaptive", "drifting"]

SETS = 20
"""Sets of fresh pools that give the truth."""

FRESH = {"simulation": (20_000, 10_000_000), "census": (5_000, 2_000_000)}
"""Pools in each set, and those that give the truth of the best candidates: its error is small."""

POLICY = "fair_greedy"

TESTED = 0.93
"""Coverage that is significantly below this, after Bonferroni, is bold."""

Found = dict[tuple[str, str], tuple[float, bool]]


@cache
def world_of(name: str) -> tuple[Environment, list[Fresh]]:
    """An environment, and sets of fresh pools of it."""
    made = build(WORLDS[name])
    assert isinstance(made, Environment)
    return made, fresh(made, SETS, *FRESH[name])


def errors(name: str, logger: str, rounds: int, seed: int) -> Found:
    """The errors of the estimates of a log, and whether their intervals hold the truth."""
    torch.set_num_threads(1)
    world, sets = world_of(name)
    log = logged(logger, world, rounds, seed)
    table = evaluate(log, POLICY, seed=seed)
    true, shares = list[dict[str, float]](), []
    for trained, judged in plan(len(log), 0.5, 2, seed, forward=log.adaptive):
        agent = Agent.from_log(POLICY, log[trained], seed=seed)  # as `evaluate` makes it
        true.append(truth(agent, world, sets[(2 * seed + len(true)) % SETS]))
        shares.append(len(judged))
    right = {name: np.average([one[name] for one in true], weights=shares) for name in true[0]}
    return {
        (row.measure, row.estimator): (
            row.value - right[row.measure],
            row.low <= right[row.measure] <= row.high,
        )
        for row in table[table["policy"] == POLICY].itertuples()
        if row.measure in right
    }


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=400)
    parser.add_argument("--rounds", type=int, nargs="+", default=[2_000, 10_000])
    parser.add_argument("--worlds", nargs="+", default=list(WORLDS), choices=WORLDS)
    parser.add_argument("--loggers", nargs="+", default=CELLS, choices=LOGGERS)
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    cells, heads = list(product(given.rounds, given.worlds, given.loggers)), list[str]()
    with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn")) as pool:
        for rounds, world, logger in cells:
            found = [*pool.map(partial(errors, world, logger, rounds), range(given.logs))]
            columns = dict.fromkeys(name for one in found for name in one)
            known = ["world", "logger", "decisions", *map(" ".join, columns)]
            if heads != known:  # some loggers have fewer estimators
                print(f"\n| {' | '.join(known)} |\n|{'---|' * len(known)}")
            heads, tests = known, len(cells) * len(found[0])
            entries = [_entry(found, name, tests) for name in columns]
            print("|", " | ".join([world, logger, f"{rounds:,}", *entries]), "|", flush=True)


def _entry(found: list[Found], column: tuple[str, str], tests: int) -> str:
    """The bias with its standard error, and the coverage, in bold if it is too small."""
    missed, held = np.array([one[column] for one in found if column in one]).T
    spread = missed.std(ddof=1) / np.sqrt(len(held))
    chance = binom.cdf(held.sum(), len(held), TESTED)  # of so few, or fewer
    mark = "**" if chance < 0.05 / tests else ""
    return f"{missed.mean():+.4f} ± {spread:.4f}, {mark}{held.mean():.1%}{mark}"


if __name__ == "__main__":
    main()

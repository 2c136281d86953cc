"""`python -m tests.evaluation.coverage`: bias and coverage of every interval, over many logs.

Each row is a world, a logger, a number of decisions, a measure and an estimator: the mean of the
estimate less the truth, and how many of the intervals hold the truth. The truth is that of the
policies that were trained on the log's parts, on pools of their own. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import product
from multiprocessing import get_context
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from scipy.stats import binom

from fairbandit import Agent, build
from fairbandit.environments import Environment
from fairbandit.evaluation import evaluate
from fairbandit.evaluation.plan import plan
from tests.evaluation.worlds import LOGGERS, Fresh, fresh, logged, truth

WORLDS: dict[str, dict[str, Any]] = {
    "simulation": {"name": "simulation"},
    "census": {"name": "census_ethnicity", "root": "sample"},
}

FRESH = 20_000
"""Pools that give the truth; fifty times as many give that of the best candidates."""

POLICY = "fair_greedy"

Found = list[tuple[str, str, float, bool]]


@cache
def world_of(name: str) -> tuple[Environment, Fresh]:
    """An environment, and fresh pools of it."""
    made = build(WORLDS[name])
    assert isinstance(made, Environment)
    return made, fresh(made, FRESH)


def one(job: tuple[str, str, int, int]) -> Found:
    """The errors of one log's estimates, and whether their intervals hold the truth."""
    torch.set_num_threads(1)
    name, logger, rounds, seed = job
    world, pools = world_of(name)
    log = logged(logger, world, rounds, seed)
    agents: list[Agent] = []
    learn = vars(Agent)["from_log"].__func__

    def kept(cls: type[Agent], *given: Any, **options: Any) -> Agent:
        agents.append(learn(cls, *given, **options))
        return agents[-1]

    with patch.object(Agent, "from_log", classmethod(kept)):
        table = evaluate(log, POLICY, seed=seed)
    parts = plan(rounds, train=0.5, folds=2, seed=seed, forward=log.adaptive)
    shares = np.array([len(part.judged) for part in parts])
    true = [truth(agent, world, pools) for agent in agents]
    found = []
    for row in table.itertuples():
        if row.measure in true[0]:
            right = float(np.average([each[row.measure] for each in true], weights=shares))
            found.append(
                (row.measure, row.estimator, row.value - right, row.low <= right <= row.high)
            )
    return found


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=400)
    parser.add_argument("--rounds", type=int, nargs="+", default=[2_000, 10_000])
    parser.add_argument("--worlds", nargs="+", default=list(WORLDS), choices=WORLDS)
    parser.add_argument("--loggers", nargs="+", default=list(LOGGERS), choices=LOGGERS)
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    print("| world | logger | decisions | measure | estimator | bias | 95 % intervals that hold |")
    print("|---|---|---|---|---|---|---|", flush=True)
    with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn")) as pool:
        for cell in product(given.worlds, given.loggers, given.rounds):
            jobs = [(*cell, seed) for seed in range(given.logs)]
            found = defaultdict[tuple[str, str], list[tuple[float, bool]]](list)
            for rows in pool.map(one, jobs, chunksize=5):
                for measure, estimator, error, holds in rows:
                    found[measure, estimator].append((error, holds))
            for (measure, estimator), pairs in found.items():
                errors, held = np.array(pairs).T
                mean, spread = errors.mean(), errors.std() / np.sqrt(len(errors))
                low = binom.cdf(held.sum(), len(held), 0.93)  # P(so few | 93 % hold)
                print(
                    f"| {cell[0]} | {cell[1]} | {cell[2]:,} | {measure} | {estimator} | "
                    f"{mean:+.4f} ± {spread:.4f} | {held.mean():.1%} (p = {low:.2g}) |",
                    flush=True,
                )


if __name__ == "__main__":
    main()

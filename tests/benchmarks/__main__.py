"""Speed, side by side: the engine and the paper-literal loop on the same draws, in one run."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import torch
from rich.console import Console
from rich.table import Table

from fairbandit.run.execute import THREADS
from tests import literal, support
from tests.test_literal import simulation_truth

ROUNDS, REPLICAS = 5000, 10


def seconds(work: Callable[[], object], times: int = 3) -> float:
    """The median of a few timings."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return sorted(taken)[times // 2]


def main() -> None:
    """Prints the table."""
    table = Table(title=f"simulation, {ROUNDS} rounds, {REPLICAS} replicas: seconds for all")
    for column in ("policy", "engine", "literal loop", "ratio"):
        table.add_column(column, justify="left" if column == "policy" else "right")
    torch.set_num_threads(THREADS)
    world = support.environment()
    truth = simulation_truth(world)  # type: ignore[arg-type]
    draws = support.draws(world, ROUNDS, seed=0)
    for name in ("fair_greedy", "greedy", "oful"):
        chosen = support.policy(name)
        support.actions(chosen, world, 300, REPLICAS)  # warm up
        engine = seconds(partial(support.actions, chosen, world, ROUNDS, REPLICAS))
        loop = seconds(partial(literal.play, name, draws, truth)) * REPLICAS
        table.add_row(name, f"{engine:.2f}", f"{loop:.2f}", f"{loop / engine:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()

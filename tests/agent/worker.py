"""A worker: `python tests/agent/worker.py FILE LOG DECISIONS NUMBER` decides up to so many pools.

It prints each ticket with its pick once the decision is made, and reports rewards late.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from fairbandit import Agent


def main() -> None:
    """Goes on where an earlier process with the same log ended."""
    path, log, count, worker = Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:5])
    begun = Agent.load(path).rounds
    agent, draws = Agent.load(path, worker=worker, log=log), np.random.default_rng(worker)
    while agent.rounds - begun < count:
        decision = agent.act(draws.normal(size=(3, 4)), draws.choice(["a", "b", "c"], 3).tolist())
        print(decision.ticket, decision.candidate, flush=True)
        if agent.rounds % 3:
            agent.update(float(draws.normal()), agent.pending[0])


if __name__ == "__main__":
    main()

"""A service that decides, learns late rewards, saves now and then, and goes on where it was."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from fairbandit import Agent


def main(folder: Path, rounds: int) -> None:
    """Decides until there were so many rounds; prints the number of each."""
    saved, log = folder / "agent.pt", folder / "decisions.jsonl"
    if saved.exists():
        agent = Agent.load(saved, log=log)
    else:
        agent = Agent.from_config("fair_greedy", features=2, groups=["north", "south"], log=log)
    while agent.rounds < rounds:
        pool = [[random.random(), random.random()] for _ in range(random.randint(2, 6))]
        agent.act(pool, [random.choice(["north", "south", "abroad"]) for _ in pool])
        if len(agent.pending) > 20:
            agent.update(random.random(), random.choice(agent.pending))
        if agent.rounds % 100 == 0:
            agent.save(saved)
        print(agent.rounds, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

"""An agent that saves after every round, in a process to be killed; and what kills it.

`python -m tests.agent.saver FILE` starts a child for each line that it reads. A child goes on from
the file, writes each round's number to FILE.log once it is saved, and never ends by itself.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch

from fairbandit import Agent
from tests.killing import environment, until

D, K = 12, 5


def main() -> None:
    """Starts children, one at a time; PyTorch is loaded but once."""
    torch.set_num_threads(1)
    path = Path(sys.argv[1])
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            go_on(path)
        print(child, flush=True)
        os.waitpid(child, 0)
        print("ended", flush=True)


def go_on(path: Path) -> None:
    """Decides and saves, for ever."""
    agent = Agent.load(path) if path.exists() else new()
    with path.with_suffix(".log").open("a", encoding="utf-8") as log:
        while True:
            step(agent)
            agent.save(path)
            log.write(f"{agent.rounds}\n")
            log.flush()


def new() -> Agent:
    """An agent with a history that takes a while to be written."""
    draws = np.random.default_rng(0)
    agent = Agent.from_config("fair_greedy", features=D, groups=["a", "b"], seed=1)
    n = 2000
    agent.observe(
        draws.normal(size=(n, K, D)),
        draws.choice(["a", "b"], (n, K)),
        draws.integers(0, K, n),
        draws.normal(size=n),
    )
    return agent


def step(agent: Agent) -> int:
    """One round, whose pool depends on its number only; every third reward comes five later."""
    t = agent.rounds + 1
    draws = np.random.default_rng(t)
    decision = agent.act(draws.normal(size=(K, D)), draws.choice(["a", "b", "new"], K))
    if t % 3:
        agent.update(draws.normal())
    for ticket in agent.pending:
        if ticket <= t - 5:
            agent.update(float(ticket % 7), ticket)
    return decision.candidate


def kill(path: Path, kills: int, seed: int = 0) -> tuple[int, int]:
    """Kills an agent that saves, at random moments; it must go on from its last whole save."""
    moments, cut, reference = random.Random(seed), 0, new()
    start, decided, last = reference.rounds, list[int](), 0
    log, command = path.with_suffix(".log"), [sys.executable, "-m", __name__, str(path)]
    with subprocess.Popen(
        command,
        env=environment(OMP_NUM_THREADS="1"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(kills):
            process.stdin.write("\n")
            process.stdin.flush()
            child = int(process.stdout.readline())
            until(lambda last=last: saved(log) > last)
            time.sleep(moments.uniform(0, 0.05))
            os.kill(child, signal.SIGKILL)
            assert process.stdout.readline() == "ended\n"
            cut += path.with_name(path.name + ".tmp").exists()
            agent = Agent.load(path)
            last = saved(log)
            assert agent.rounds in (last, last + 1), (agent.rounds, last)
            while len(decided) < agent.rounds - start + 3:
                decided.append(step(reference))
            done = agent.rounds - start
            assert [step(agent) for _ in range(3)] == decided[done : done + 3]
        process.stdin.close()
    return last - start, cut


def saved(log: Path) -> int:
    """The last round that is in the log as saved; the log may be in the midst of a line."""
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True) if log.exists() else []
    whole = [line for line in lines if line.endswith("\n")]
    return int(whole[-1]) if whole else 0


if __name__ == "__main__":
    main()

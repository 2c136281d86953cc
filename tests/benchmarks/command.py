"""The whole command: import, compose, run, log, write; and a sweep of many small runs."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

from tests import support
from tests.benchmarks.measure import median, timed
from tests.benchmarks.rows import Measure, Row, Target
from tests.benchmarks.worlds import Bench, Scale

TIMES = {Scale.full: 5, Scale.quick: 3, Scale.tiny: 1}
JOBS = {Scale.full: 500, Scale.quick: 50, Scale.tiny: 2}
ROUNDS = {Scale.full: 5000, Scale.quick: 5000, Scale.tiny: 20}


def command(bench: Bench) -> Iterator[Row]:
    """The command line, turn about with an import of torch alone; and a sweep."""
    words = ["policy=fair_greedy", f"rounds={ROUNDS[bench.scale]}", "replicas=10"]
    name = f"fairbandit {' '.join(words)}"
    bench.say(name)
    whole, torch = [], []
    for _ in range(TIMES[bench.scale]):
        torch.append(timed(_python, ["-c", "import torch"])[1])
        whole.append(timed(_python, ["-m", "fairbandit.cli.main", *words])[1])
    stated, targets = bench.scale is not Scale.tiny, (Target(Measure.beyond, 3),)
    beside = "import torch", median(torch)
    yield Row(name, median(whole), *beside, longer=True, targets=targets, stated=stated)
    jobs = JOBS[bench.scale]
    words = ["-m", f"seed=range(0,{jobs})", "rounds=10", "replicas=1"]
    name = f"fairbandit {' '.join(words)}"
    bench.say(name)
    taken = timed(_python, ["-m", "fairbandit.cli.main", *words])[1]
    targets = (Target(Measure.seconds, 60),)
    yield Row(name, taken, targets=targets, stated=bench.scale is Scale.full)


def _python(words: Sequence[str]) -> None:
    """A fresh interpreter in an empty folder."""
    paths = [str(support.REPOSITORY), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, *words], cwd=folder, env=environment, check=True, capture_output=True
        )

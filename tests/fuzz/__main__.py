"""Random and hostile inputs against every door of the package; exits with 1 if one finds a fault.

`python -m tests.fuzz [INPUTS]` makes so many inputs, 10,000 unless given, and prints how each
subject fared. The inputs are the same each time. `--only NAME` takes one subject, and
`--first N` begins with its input N, so that `--only NAME --first N 1` tries one input again.
"""

import argparse
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from tests.fuzz.calls import Calls
from tests.fuzz.commands import Commands
from tests.fuzz.files import Files
from tests.fuzz.harness import WAITING, Fault, Result, Subject, outcome
from tests.fuzz.tables import Tables

SUBJECTS: dict[str, type[Subject]] = {
    subject.name: subject for subject in (Calls, Tables, Files, Commands)
}

BATCH = 500
"""Inputs that one process tries, unless it ends early."""

GRACE = 20.0
"""Seconds beyond the time limit after which a process that says nothing is killed."""

STARTING = 60.0
"""Seconds that a process may take until its first input."""

SHOWN = 20
"""Findings that are printed whole."""


def main() -> None:
    """Reads the words, runs everything and reports."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("inputs", nargs="?", type=int, default=10_000)
    parser.add_argument("--only", choices=list(SUBJECTS))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(given.only, given.first, given.inputs)
        return
    began = time.monotonic()
    batches = list(_batches(given.inputs, given.only, given.first))
    with ThreadPoolExecutor(given.jobs) as pool:
        results = [
            result
            for part in pool.map(lambda batch: supervised(*batch), batches)
            for result in part
        ]
    print(report(results))
    print(f"{len(results):,} inputs in {time.monotonic() - began:.0f} s")
    sys.exit(any(result.fault for result in results))


def _batches(inputs: int, only: str | None, first: int) -> Iterator[tuple[str, int, int]]:
    """The subject, first number and count of every process, the slowest subjects first."""
    for name in reversed(SUBJECTS):
        if only in (None, name):
            count = inputs if only else round(inputs * SUBJECTS[name].share)
            for start in range(first, first + count, BATCH):
                yield name, start, min(BATCH, first + count - start)


def work(name: str, first: int, count: int) -> None:
    """Tries some inputs in this process; says before each which it is, and after each its result.

    What the inputs print goes nowhere.
    """
    torch.set_num_threads(1)
    warnings.simplefilter("error")
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    with tempfile.TemporaryDirectory() as folder:
        subject = SUBJECTS[name](Path(folder))
        for number in range(first, first + count):
            channel.write(f"{number}\n")
            channel.write(outcome(subject, number).line() + "\n")


def supervised(name: str, first: int, count: int) -> list[Result]:
    """The results of some inputs, in processes that may crash or hang.

    Args:
        name: the subject.
        first: the first input's number.
        count: of inputs.
    """
    results: list[Result] = []
    while len(results) < count:
        start = first + len(results)
        results += _one_process(name, start, count - len(results))
    return results


def _one_process(name: str, first: int, count: int) -> list[Result]:
    """The results of the inputs up to the one at which a process ends or falls silent."""
    words = [sys.executable, "-m", "tests.fuzz", "--worker", "--only", name]
    words += ["--first", str(first), str(count)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    lines: queue.Queue[str | None] = queue.Queue()
    assert process.stdout is not None
    reader = threading.Thread(target=_read, args=(process.stdout, lines), daemon=True)
    reader.start()
    results: list[Result] = []
    number, wait = first, STARTING
    try:
        while len(results) < count:
            line = lines.get(timeout=wait)
            wait = WAITING * SUBJECTS[name].limit + GRACE
            if line is None:
                code = process.wait()
                return [*results, Result(name, number, Fault.crash.name, f"exit code {code}")]
            if line.startswith("{"):
                results.append(Result(**json.loads(line)))
            else:
                number = int(line)
    except queue.Empty:
        return [*results, Result(name, number, Fault.timeout.name, "nothing could interrupt it")]
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stdout.close()
    return results


def _read(stream: Iterator[str], lines: "queue.Queue[str | None]") -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def report(results: list[Result]) -> str:
    """A table of all subjects, below the first findings."""
    kinds = ["accepted", "refused", *Fault.__members__]
    counts = Counter((result.subject, result.ending) for result in results)
    found = [result for result in results if result.fault]
    told = [
        f"{result.ending}: {result.subject} {result.number}\n{result.text}"
        for result in found[:SHOWN]
    ]
    if len(found) > SHOWN:
        told.append(f"{len(found) - SHOWN} more findings")
    told.append("".join(f"{word:>11}" for word in ("", "inputs", *kinds)))
    for name in dict.fromkeys(result.subject for result in results):
        row = [counts[name, kind] for kind in kinds]
        told.append(f"{name:>11}" + "".join(f"{number:>11,}" for number in (sum(row), *row)))
    return "\n".join(told)


if __name__ == "__main__":
    main()

"""Tries random and hostile inputs; exits with 1 if one of them finds a fault.

`python -m tests.fuzz [INPUTS]` makes so many inputs, 10,000 unless given, the same each time. An
input is accepted, or refused with a `FairbanditError`; every other error is a fault, and so is a
check of the door itself that fails, the end of the process, or no answer within a minute.
`--only NAME --first N 1` tries one input of one door again.
"""

import argparse
import faulthandler
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import torch

from fairbandit.errors import FairbanditError
from tests.fuzz.calls import calls
from tests.fuzz.commands import commands
from tests.fuzz.logs import logs
from tests.fuzz.mistakes import mistakes
from tests.fuzz.tables import tables

Door = Callable[[random.Random, Path], None]

DOORS: dict[str, Door] = {
    "commands": commands,
    "tables": tables,
    "calls": calls,
    "logs": logs,
    "mistakes": mistakes,
}

SHARES = {
    "commands": 0.15,
    "tables": 0.2,
    "calls": 0.25,
    "logs": 0.2,
    "mistakes": 0.2,
}
"""The part of all inputs that each door gets."""

BATCH, SECONDS = 250, 60
"""Inputs that one process tries, and how long each of them may take."""


class Result(NamedTuple):
    """What one input did: `ending` is accepted, refused or fault, and `text` tells of a fault."""

    door: str
    number: int
    ending: str
    text: str = ""


def attempt(name: str, number: int, folder: Path) -> Result:
    """Tries one input in an empty folder of its own."""
    place = folder / f"{name}-{number}"
    place.mkdir()
    try:
        DOORS[name](random.Random(f"{name} {number}"), place)
    except FairbanditError:
        return Result(name, number, "refused")
    except Exception:
        return Result(name, number, "fault", traceback.format_exc())
    finally:
        shutil.rmtree(place)
    return Result(name, number, "accepted")


def work(name: str, first: int, count: int) -> None:
    """Tries some inputs in this process, and writes a line each; what they print goes nowhere."""
    torch.set_num_threads(1)
    warnings.simplefilter("error")
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    with open(os.devnull, "w") as nowhere, tempfile.TemporaryDirectory() as folder:  # noqa: PTH123
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
        for number in range(first, first + count):
            faulthandler.dump_traceback_later(SECONDS, exit=True)
            channel.write(json.dumps(attempt(name, number, Path(folder))) + "\n")
        faulthandler.cancel_dump_traceback_later()


def supervised(name: str, first: int, count: int) -> list[Result]:
    """The results of some inputs; after one that ends its process, another goes on."""
    results: list[Result] = []
    while len(results) < count:
        start, left = first + len(results), count - len(results)
        words = [sys.executable, "-m", "tests.fuzz", "--worker", "--only", name]
        words += ["--first", str(start), str(left)]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
        results += [Result(*json.loads(line)) for line in done.stdout.splitlines()]
        if len(results) < count:
            text = f"the process ended with {done.returncode}, by a crash or after {SECONDS} s"
            results.append(Result(name, first + len(results), "fault", text))
    return results


def report(results: list[Result]) -> str:
    """The faults, and a line for each door."""
    told = [f"{result.door} {result.number}\n{result.text}" for result in results if result.text]
    for name in dict.fromkeys(result.door for result in results):
        endings = Counter(result.ending for result in results if result.door == name)
        told.append(f"{name}: " + ", ".join(f"{n} {ending}" for ending, n in endings.items()))
    return "\n".join(told)


def main() -> None:
    """Reads the words, runs everything and reports."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("inputs", nargs="?", type=int, default=10_000)
    parser.add_argument("--only", choices=list(DOORS))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        return work(given.only, given.first, given.inputs)
    batches = [
        (name, start, min(BATCH, given.first + count - start))
        for name in ([given.only] if given.only else DOORS)
        for count in [given.inputs if given.only else round(given.inputs * SHARES[name])]
        for start in range(given.first, given.first + count, BATCH)
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        parts = pool.map(lambda batch: supervised(*batch), batches)
        results = [result for part in parts for result in part]
    print(report(results))
    sys.exit(any(result.ending == "fault" for result in results))


if __name__ == "__main__":
    main()

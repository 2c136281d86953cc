"""`python -m tests.benchmarks`: runs the benchmarks and prints one table with ratios."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich.console import Console

from tests.benchmarks import report
from tests.benchmarks.alone import alone
from tests.benchmarks.batch import batch
from tests.benchmarks.command import command
from tests.benchmarks.libraries import libraries
from tests.benchmarks.long import long, memory
from tests.benchmarks.online import online
from tests.benchmarks.raw_rows import raw_rows
from tests.benchmarks.rows import Row
from tests.benchmarks.worlds import Bench, Scale

BENCHMARKS: dict[str, Callable[[Bench], Iterator[Row]]] = {
    "alone": alone,
    "batch": batch,
    "command": command,
    "libraries": libraries,
    "online": online,
    "raw_rows": raw_rows,
    "long": long,
    "memory": memory,
}

WIDTH = 220
"""Of the table where no terminal says how wide it is."""


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is asked for, prints the table and, if asked to, saves it."""
    given = _parser().parse_args(words)
    before = report.saved(given.compare) if given.compare else None
    busy = report.busyness()
    rows = run(given.only or list(BENCHMARKS), Scale.quick if given.quick else Scale.full)
    shown = Console()
    console = shown if shown.is_terminal else Console(width=WIDTH)
    console.print(report.table(rows, busy, before))
    if given.save:
        report.save(rows, given.save, busy)
        console.print(f"saved in {given.save}")


def run(names: Sequence[str], scale: Scale) -> list[Row]:
    """All rows of some benchmarks; a line on the standard error says what runs.

    One that breaks off says so in a row, and the others go on.
    """
    console, began = Console(stderr=True), time.perf_counter()

    def say(text: str) -> None:
        console.print(f"{time.perf_counter() - began:6.0f} s  {text}", highlight=False)

    with tempfile.TemporaryDirectory() as folder:
        bench, rows = Bench(scale, Path(folder), say), []
        for name in names:
            try:
                for row in BENCHMARKS[name](bench):
                    rows.append(row)  # noqa: PERF402 - what came before an error counts
            except Exception as error:
                reason = str(error).strip() or type(error).__name__
                rows.append(Row(name, note=f"broke off: {reason.splitlines()[0]}"))
    return rows


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    add, names = parser.add_argument, ", ".join(BENCHMARKS)
    add("--quick", action="store_true", help="smaller sizes, in two to six minutes")
    add("--only", nargs="+", choices=BENCHMARKS, metavar="NAME", help=names)
    add("--save", type=Path, metavar="FILE", help="keep the results, as JSON")
    add("--compare", type=Path, metavar="FILE", help="set saved results beside, row by row")
    return parser


if __name__ == "__main__":
    main()

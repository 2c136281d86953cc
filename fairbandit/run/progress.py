"""The progress of runs and of sweeps, as bars on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

_sweeps: list[tuple[Progress, TaskID]] = []  # the bars of this process's sweep, and that of its run


def _bars(console: Console | None, *, shown: bool) -> Progress:
    console = console or Console(stderr=True)
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
        console=console,
        transient=True,
        disable=not (shown and console.is_terminal),
    )


@contextmanager
def run_progress(
    title: str, rounds: int, console: Console | None = None, *, shown: bool = True
) -> Iterator[Callable[[int], None]]:
    """Shows the rounds done and the time left, on terminals only.

    The bar of a run in a sweep of this process is the second line of the sweep's progress.

    Args:
        title: what is running.
        rounds: T times the number of replicas.
        console: where to draw; standard error by default.
        shown: whether to show the bar at all; workers that run side by side do not.

    Yields:
        A function that counts so many more replica-rounds as done.
    """
    if _sweeps and shown:
        bars, line = _sweeps[-1]
        bars.reset(line, total=rounds, description=title, visible=True)
        yield partial(bars.advance, line)
        return
    with _bars(console, shown=shown) as bars:
        line = bars.add_task(title, total=rounds)
        yield partial(bars.advance, line)


@contextmanager
def sweep_progress(jobs: int, console: Console | None = None) -> Iterator[Callable[[], None]]:
    """Shows how many jobs of a sweep have ended, on terminals only.

    Args:
        jobs: how many jobs there are.
        console: where to draw; standard error by default.

    Yields:
        A function that counts one more job as done.
    """
    with _bars(console, shown=True) as bars:
        line = bars.add_task("jobs", total=jobs)
        _sweeps.append((bars, bars.add_task("", visible=False)))
        try:
            yield partial(bars.advance, line)
        finally:
            _sweeps.pop()

"""The progress of runs and of sweeps, as bars on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

_sweeps: list[tuple[Progress, TaskID]] = []  # the bars of this process's sweep, and that of its run


class _Done(ProgressColumn):
    """A column that shows how much is done, of how much, and for runs how fast."""

    def render(self, task: Task) -> Text:
        """Returns both numbers, and replica-rounds per second."""
        done = f"{task.completed:,.0f}/{task.total or 0:,.0f}"
        speed = task.finished_speed or task.speed
        if not task.fields["rated"] or speed is None:
            return Text(done)
        return Text(f"{done} {speed:,.0f} rounds/s")


def _bars(console: Console | None, *, shown: bool) -> Progress:
    console = console or Console(stderr=True)
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        _Done(),
        TimeRemainingColumn(compact=True),
        console=console,
        transient=True,
        disable=not (shown and console.is_terminal),
    )


@contextmanager
def run_progress(
    title: str, rounds: int, console: Console | None = None, *, shown: bool = True
) -> Iterator[Callable[[int], None]]:
    """Shows the rounds done, the replica-rounds per second and the time left, on terminals only.

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
        line = bars.add_task(title, total=rounds, rated=True)
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
        line = bars.add_task("jobs", total=jobs, rated=False)
        _sweeps.append((bars, bars.add_task("", visible=False, rated=True)))
        try:
            yield partial(bars.advance, line)
        finally:
            _sweeps.pop()

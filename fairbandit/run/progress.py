"""The progress bar of a run, which is shown on terminals only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text


class _Rate(ProgressColumn):
    """A column that shows replica-rounds per second."""

    def render(self, task: Task) -> Text:
        """Returns the rate so far, or a dash."""
        speed = task.finished_speed or task.speed
        return Text("– rounds/s" if speed is None else f"{speed:,.0f} rounds/s")


@contextmanager
def run_progress(
    title: str, rounds: int, console: Console | None = None, *, shown: bool = True
) -> Iterator[Callable[[int], None]]:
    """Shows the rounds done, the replica-rounds per second and the time left.

    Args:
        title: what is running.
        rounds: T times the number of replicas.
        console: where to draw; standard error by default.
        shown: whether to show the bar at all; workers that run side by side do not.

    Yields:
        A function that counts so many more replica-rounds as done.
    """
    console = console or Console(stderr=True)
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
        _Rate(),
        TimeRemainingColumn(compact=True),
        console=console,
        transient=True,
        disable=not (shown and console.is_terminal),
    ) as bar:
        task = bar.add_task(title, total=rounds)
        yield lambda done: bar.advance(task, done)

"""The progress bar of a run, which is shown on terminals only."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text


class _Rate(ProgressColumn):
    """A column that shows replica-rounds per second."""

    def render(self, task: Task) -> Text:
        """Returns the rate so far, or a dash."""
        speed = task.finished_speed or task.speed
        return Text("– rounds/s" if speed is None else f"{speed:,.0f} rounds/s")


class RunProgress:
    """Shows rounds done, replica-rounds a second and the time left; a context manager.

    Args:
        title: what is running.
        rounds: T times the number of replicas.
        console: where to draw; standard error by default.
        shown: whether to show the bar at all; workers that run side by side do not.
    """

    def __init__(
        self, title: str, rounds: int, console: Console | None = None, *, shown: bool = True
    ) -> None:
        console = console or Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
            _Rate(),
            TimeRemainingColumn(compact=True),
            console=console,
            transient=True,
            disable=not (shown and console.is_terminal),
        )
        self._task = self._bar.add_task(title, total=rounds)

    def __enter__(self) -> RunProgress:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def advance(self, rounds: int) -> None:
        """Counts so many more replica-rounds as done."""
        self._bar.advance(self._task, rounds)

"""The progress of runs and of sweeps: bars on a terminal, some lines of text elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

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

SECONDS_BETWEEN_LINES = 10.0
"""The least time between two lines about a sweep where there is no terminal."""

_LOOK = 0.2  # seconds between two looks at how far a sweep is
_sweeps: list[tuple[Progress, TaskID]] = []  # the bars of this process's sweep, and that of its run


class _Done(ProgressColumn):
    """A column that shows how much is done, and of how much."""

    def render(self, task: Task) -> Text:
        """Returns both numbers, without the second where it is not known."""
        total = "" if task.total is None else f"/{task.total:,.0f}"
        return Text(f"{task.completed:,.0f}{total}")


class _Rate(ProgressColumn):
    """A column that shows replica-rounds per second."""

    def render(self, task: Task) -> Text:
        """Returns the rate so far, or a dash; nothing on the bar of a sweep."""
        if not task.fields["rated"]:
            return Text()
        speed = task.finished_speed or task.speed
        return Text("– rounds/s" if speed is None else f"{speed:,.0f} rounds/s")


def _bars(console: Console, *, shown: bool) -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        _Done(),
        _Rate(),
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
        yield lambda done: bars.advance(line, done)
        return
    with _bars(console or Console(stderr=True), shown=shown) as bars:
        line = bars.add_task(title, total=rounds, rated=True)
        yield lambda done: bars.advance(line, done)


@contextmanager
def sweep_progress(
    where: Callable[[], tuple[str, int]], total: int | None, console: Console | None = None
) -> Iterator[None]:
    """Shows how far a sweep is while the block runs: bars, or lines on standard output.

    Args:
        where: says what is being done, as in "jobs done", and how many of it; it is called from
            another thread.
        total: how many jobs there are; None if that is not known.
        console: where to draw bars if it is a terminal; standard error by default.
    """
    console = console or Console(stderr=True)
    with _bars(console, shown=True) as bars:
        of_all = bars.add_task("", total=total, rated=False)
        _sweeps.append((bars, bars.add_task("", visible=False, rated=True)))
        tell = _lines(total) if bars.disable else None
        left = Event()

        def follow() -> None:
            while not left.wait(_LOOK):
                doing, count = where()
                if tell is None:
                    bars.update(of_all, description=doing, completed=count)
                else:
                    tell(doing, count)

        thread = Thread(target=follow, daemon=True)
        thread.start()
        try:
            yield
        finally:
            left.set()
            thread.join()
            _sweeps.pop()


def _lines(total: int | None) -> Callable[[str, int], None]:
    """Returns a function that prints how far a sweep is, when enough time has gone by."""
    last, said = time.monotonic(), ""
    of_all = "" if total is None else f" of {total:,}"

    def tell(doing: str, count: int) -> None:
        nonlocal last, said
        line = f"{doing} {count:,}{of_all}"
        if line != said and time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last, said = time.monotonic(), line
            print(line, flush=True)

    return tell

"""The progress of runs and of sweeps, as bars on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_screen = Console(stderr=True)


@contextmanager
def progress_bar(title: str, total: int, *, shown: bool = True) -> Iterator[Callable[..., None]]:
    """Shows how much is done and the time left, on terminals only.

    A bar that begins while another is shown, as that of a run in a sweep, is a line below it.

    Args:
        title: what is running.
        total: how many things there are to do, such as jobs or rounds of replicas.
        shown: whether to show the bar at all; workers that run side by side do not.

    Yields:
        A function that counts so many more things as done, by default one.
    """
    columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn()
    with Progress(
        *(*columns, TimeRemainingColumn(compact=True)),
        console=_screen,
        transient=True,
        disable=not (shown and _screen.is_terminal),
    ) as bars:
        yield partial(bars.advance, bars.add_task(title, total=total))

"""Progress bars of runs and of sweeps on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_screen = Console(stderr=True)


@contextmanager
def progress_bar(title: str, total: int, *, shown: bool = True) -> Iterator[Callable[..., None]]:
    """Shows the progress and the remaining time, on terminals only; parallel workers show none.

    A bar that begins while another is shown, such as a run in a sweep, appears on the line below.

    Yields:
        A function that advances the bar by the given number of steps, by default 1.
    """
    name, left = TextColumn("{task.description}", markup=False), TimeRemainingColumn(compact=True)
    columns = name, BarColumn(), MofNCompleteColumn(), left
    hidden = not (shown and _screen.is_terminal)
    with Progress(*columns, console=_screen, transient=True, disable=hidden) as bars:
        yield partial(bars.advance, bars.add_task(title, total=total))

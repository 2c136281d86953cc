"""What a sweep leaves beside its jobs: their results as one CSV file, and the figures asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from fairbandit.cli.figures import files_table
from fairbandit.cli.messages import short
from fairbandit.errors import FairbanditError
from fairbandit.figures.draw import (
    SUBFOLDER,
    Choice,
    check_choice,
    draw,
    keep_choice,
    show_on_board,
)
from fairbandit.results import read_runs
from fairbandit.results.table import tidy, write
from fairbandit.run.table import named

RESULTS = "results.csv"
"""The table of a sweep, a row a finished job."""


def figures_asked(asked: Any) -> Choice:
    """The figures that a config asks for; none by default.

    Args:
        asked: the value of its key `figures`, as plain data.

    Raises:
        FairbanditError: an unknown figure, or neither names nor a mapping.
    """
    choice: dict[str, list[str] | None] = {}
    for item in _items(asked):
        choice.update({item: None} if isinstance(item, str) else item)
    check_choice(choice)
    return choice


def _items(asked: Any) -> list[Any]:
    """Names, and mappings from a name to policies."""
    if asked is None:
        return []
    if not isinstance(asked, list) or not all(map(_is_item, asked)):
        raise FairbanditError(
            "figures is a list of names, each alone or with the policies that it shows, as in "
            f"figures=[{{overview:[greedy,uniform]}},price]; got {asked!r}"
        )
    return asked


def _is_item(item: Any) -> bool:
    if isinstance(item, dict):
        return all(_are_names([name]) and _are_names(whose) for name, whose in item.items())
    return isinstance(item, str)


def _are_names(values: Any) -> bool:
    """Whether it is a list of texts, and not empty."""
    return isinstance(values, list) and all(isinstance(one, str) for one in values) and bool(values)


def gather_sweep(folder: Path, figures: Choice, shown: Console) -> None:
    """Writes a sweep's table and figures, from what is saved in its folder.

    Args:
        folder: the sweep's; at least one job in it has finished.
        figures: those asked for.
        shown: where the files are named.

    Raises:
        FairbanditError: a file cannot be read or written.
    """
    write(tidy(read_runs([folder])), folder / RESULTS)
    shown.print(named("table", short(folder / RESULTS)), soft_wrap=True)
    if not figures:
        return
    out = folder / SUBFOLDER
    drawn = draw([folder], out, figures)
    try:
        keep_choice(figures, out)
        show_on_board(drawn, out)
    except OSError as error:
        raise FairbanditError(f"cannot write figures to {out}: {error.strerror}") from error
    shown.print(files_table(drawn))

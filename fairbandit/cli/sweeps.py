"""What a sweep leaves in its folder: its jobs' errors and outcomes, one table, and figures."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
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
from fairbandit.results.runs import natural_order
from fairbandit.results.table import tidy, write
from fairbandit.run import summary as summaries
from fairbandit.run.folder import (
    CHECKPOINT,
    ERROR,
    ROUNDS,
    SUMMARY,
    finished_below,
    walk,
    written_aside,
)
from fairbandit.run.table import Outcome, named

RESULTS = "results.csv"
"""The file of a sweep's table, which has a row for each finished job."""


def note_error(folder: Path, text: str) -> bool:
    """Writes a job's error to its folder, for the sweep's table; returns whether it could."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with written_aside(folder / ERROR) as file:
            file.write(f"{text.rstrip()}\n".encode())
    except OSError:
        return False
    return True


def forget_error(folder: Path) -> None:
    """Removes the error of a job that is played again."""
    with suppress(OSError):
        (folder / ERROR).unlink(missing_ok=True)


def finished_in(folder: Path) -> dict[Path, int]:
    """Returns the folders of the finished runs below a folder, with their summaries' times."""
    found = map(Path, finished_below(folder))
    return {place: (place / SUMMARY).stat().st_mtime_ns for place in found}


def outcomes(folder: Path, before: Mapping[Path, int]) -> list[Outcome]:
    """Returns the outcomes of a sweep's jobs, in natural order of their names.

    Args:
        folder: the sweep's.
        before: what `finished_in` gave before it began.
    """
    marks = {SUMMARY, ERROR, CHECKPOINT, ROUNDS}
    found = walk(folder)
    jobs = {Path(place) for place, inside, files in found if marks & {*inside, *files}} - {folder}
    ordered = sorted(jobs, key=lambda job: natural_order(str(job)))
    return [_outcome(job, folder, before.get(job)) for job in ordered]


def _outcome(job: Path, folder: Path, before: int | None) -> Outcome:
    name = str(job.relative_to(folder))
    error = job / ERROR
    if error.exists():
        return Outcome(name, "failed", error=error.read_text(encoding="utf-8").splitlines()[-1])
    if (job / SUMMARY).exists():
        same = (job / SUMMARY).stat().st_mtime_ns == before
        return Outcome(name, "skipped" if same else "finished", summary=summaries.read(job))
    return Outcome(name, "unfinished")


def figures_asked(asked: Any) -> Choice:
    """Reads which figures a config asks for; none by default.

    Args:
        asked: the value of its key `figures`, as plain data.

    Raises:
        FairbanditError: an unknown figure, or neither names nor a mapping.
    """
    asked = [] if asked is None else asked
    if not isinstance(asked, list) or not all(map(_names_figures, asked)):
        raise FairbanditError(
            "figures is a list of names, each alone or with the policies that it shows, as in "
            f"figures=[{{overview:[greedy,uniform]}},price]; got {asked!r}"
        )
    choice: dict[str, list[str] | None] = {}
    for item in asked:
        choice.update({item: None} if isinstance(item, str) else item)
    check_choice(choice)
    return choice


def _names_figures(item: Any) -> bool:
    """Whether an item is the name of a figure, or maps names to policies."""
    if not isinstance(item, dict):
        return isinstance(item, str)
    return all(
        isinstance(name, str)
        and isinstance(policies, list)
        and len(policies) > 0
        and all(isinstance(policy, str) for policy in policies)
        for name, policies in item.items()
    )


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

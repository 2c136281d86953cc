"""The outcomes of a sweep's jobs, read from their folders."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from fairbandit.results.runs import natural_order
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
from fairbandit.run.table import Outcome


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

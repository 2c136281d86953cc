"""What became of the jobs of a sweep, as their folders tell."""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from fairbandit.run import summary as summaries
from fairbandit.run.folder import CHECKPOINT, ROUNDS, SUMMARY, written_aside
from fairbandit.run.table import Outcome

ERROR = "error.txt"
"""Why a job failed, in its folder; the last line says it in short."""


def note_error(folder: Path, text: str) -> bool:
    """Keeps a job's error for the sweep's table; whether that was possible."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with written_aside(folder / ERROR) as file:
            file.write(f"{text.rstrip()}\n".encode())
    except OSError:
        return False
    return True


def forget_error(folder: Path) -> None:
    """The job is under way again, or done."""
    with suppress(OSError):
        (folder / ERROR).unlink(missing_ok=True)


def finished_in(folder: Path) -> frozenset[Path]:
    """The folders of the finished runs within a folder."""
    return frozenset(path.parent for path in folder.rglob(SUMMARY))


def outcomes(folder: Path, before: Collection[Path]) -> list[Outcome]:
    """The jobs of a sweep, in natural order of their names.

    Args:
        folder: the sweep's.
        before: the folders of the jobs that were finished before it began.
    """
    marks = (SUMMARY, ERROR, CHECKPOINT, ROUNDS)
    jobs = {path.parent for mark in marks for path in folder.rglob(mark)} - {folder}
    return [_outcome(job, folder, job in before) for job in sorted(jobs, key=_natural)]


def _outcome(job: Path, folder: Path, before: bool) -> Outcome:
    name = str(job.relative_to(folder))
    error = job / ERROR
    if error.exists():
        return Outcome(name, "failed", error=error.read_text(encoding="utf-8").splitlines()[-1])
    if (job / SUMMARY).exists():
        return Outcome(name, "skipped" if before else "finished", summary=summaries.read(job))
    return Outcome(name, "unfinished")


def _natural(path: Path) -> list[tuple[int, str]]:
    """Sorts seed-2 before seed-10."""
    pieces = re.split(r"(\d+)", str(path))
    return [(int(piece), "") if piece.isdigit() else (-1, piece) for piece in pieces]

"""What became of the jobs of a sweep, as their folders tell."""

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


def finished_in(folder: Path) -> dict[Path, int]:
    """The folders of the finished runs within a folder, each with the time of its summary."""
    found = map(Path, finished_below(folder))
    return {place: (place / SUMMARY).stat().st_mtime_ns for place in found}


def outcomes(folder: Path, before: Mapping[Path, int]) -> list[Outcome]:
    """The jobs of a sweep, in natural order of their names.

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

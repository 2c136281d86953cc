"""The outcomes of a sweep's jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairbandit.results import SavedRun
from fairbandit.results.runs import natural_order
from fairbandit.run import folder as folders
from fairbandit.run import summary as summaries
from fairbandit.run.folder import CHECKPOINT, ERROR, ROUNDS, SUMMARY

STATUSES = ("finished", "skipped", "failed", "unfinished")
"""What may have become of a job."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a job of a sweep.

    Attributes:
        name: the job's.
        status: finished, skipped (it was finished before), failed or unfinished.
        run: that of a job that is finished.
        error: of a job that failed, in one line.
    """

    name: str
    status: str
    run: SavedRun | None = None
    error: str = ""


def outcomes(folder: Path, before: Mapping[Path, int]) -> list[Outcome]:
    """Returns the outcomes of the jobs in a sweep's folder, in natural order of their names.

    Args:
        folder: the sweep's.
        before: the times of the summaries that were there before, by the jobs' folders.
    """
    marks = {SUMMARY, ERROR, CHECKPOINT, ROUNDS}
    found = folders.walk(folder)
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
        run = SavedRun(job, summaries.read(job), name)
        return Outcome(name, "skipped" if same else "finished", run)
    return Outcome(name, "unfinished")


def failures(jobs: Sequence[Outcome]) -> Iterator[str]:
    """Yields a line for each error, with the number of jobs that ended with it."""
    for error, number in Counter(job.error for job in jobs if job.error).items():
        names = [job.name for job in jobs if job.error == error]
        which = names[0] if number == 1 else f"{number:,} jobs, as {names[0]}"
        yield f"failed  {which}: {error}"

"""The outcomes of a sweep's jobs, and the tables that a sweep ends with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from fairbandit.results import SavedRun, pool
from fairbandit.results.overview import overview
from fairbandit.results.runs import natural_order
from fairbandit.run import folder as folders
from fairbandit.run import summary as summaries
from fairbandit.run.folder import CHECKPOINT, ERROR, ROUNDS, SUMMARY
from fairbandit.run.table import Sheet, make_table

_STATUSES = ("finished", "skipped", "failed", "unfinished")


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


def sweep_table(jobs: Sequence[Outcome]) -> Sheet:
    """Returns a table of the finished jobs, a row a setting, whose title counts all jobs."""
    counts = Counter(job.status for job in jobs)
    told = ", ".join(f"{counts[one]} {one}" for one in _STATUSES if counts[one])
    title = "All jobs" if set(counts) == {"finished"} else f"All jobs: {told}"
    runs = [job.run for job in jobs if job.run is not None]
    return overview(pool(runs) if runs else [], title=title)


def failures_table(jobs: Sequence[Outcome]) -> Table:
    """Returns a table of the jobs without results, with the last line of each error."""
    rows = [(job.name, job.error or job.status) for job in jobs if job.run is None]
    return make_table(("job", "error"), rows, title="Jobs without results")

"""Results on the screen: one run as a list, many as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fairbandit.metrics import REGRETS

_WIDE = 160  # columns where no terminal says how many there are


def console() -> Console:
    """Standard output; wide where it is a file or a pipe.

    Text is shown as it is: names of groups, of policies and of files are the users', and may look
    like markup or like emoji. Styles come in as `rich.text.Text`, or of columns and tables.
    """
    shown = Console(markup=False, emoji=False)
    return shown if shown.is_terminal else Console(width=_WIDE, markup=False, emoji=False)


def named(what: str, where: str | Path) -> Text:
    """A line that names something and where it is."""
    return Text.assemble((what, "bold"), "  ", str(where))


def run_table(summary: Mapping[str, Any]) -> Table:
    """One run's summary, a line for each quantity."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    rates = summary["selection_rate"]
    lines = {
        "policy": summary["policy"],
        "environment": summary["environment"],
        "rounds": f"{summary['rounds']:,} × {summary['replicas']:,} replicas",
        **{
            REGRETS[column].replace("_pseudo_", " pseudo-"): spread(summary[REGRETS[column]])
            for column in sorted(REGRETS)
        },
        **{column: spread(metric, 3) for column, metric in summary["metrics"].items()},
        **{f"selection rate, group {group}": spread(rate, 3) for group, rate in rates.items()},
        "time": f"{summary['seconds']:.2f} s, {summary['rounds_per_second']:,.0f} rounds/s",
    }
    for name, value in lines.items():
        table.add_row(name, value)
    return table


@dataclass(frozen=True)
class Outcome:
    """What became of a job of a sweep.

    Attributes:
        name: the job's.
        status: finished, skipped (it was finished before), failed or unfinished.
        summary: of a run that is finished.
        error: of a job that failed, in one line.
    """

    name: str
    status: str
    summary: Mapping[str, Any] | None = None
    error: str | None = None


def sweep_table(jobs: Sequence[Outcome]) -> Table:
    """The jobs of a sweep, a row each.

    Args:
        jobs: the jobs; their names are shown where policy and environment do not tell them apart,
            their status unless all are finished.
    """
    counts = Counter(job.status for job in jobs)
    told = {(job.summary["policy"], job.summary["environment"]) for job in jobs if job.summary}
    named = len(told) < len(jobs)
    status = set(counts) != {"finished"}
    table = Table(title=_title(counts) if status else "All jobs", title_justify="left")
    for header in [*(["job"] if named else []), *(["status"] if status else [])]:
        table.add_column(header, overflow="fold")
    for header in ("policy", "environment"):
        table.add_column(header, overflow="fold")
    metrics = list(
        dict.fromkeys(name for job in jobs for name in (job.summary or {}).get("metrics", {}))
    )
    for header in ("rounds", "replicas", "fair", "standard", *metrics, "seconds", "rounds/s"):
        table.add_column(header, justify="right", overflow="fold")
    for job in jobs:
        first = [*([job.name] if named else []), *([job.status] if status else [])]
        table.add_row(*first, *_numbers(job.summary, metrics))
    return table


def failures_table(jobs: Sequence[Outcome]) -> Table:
    """The jobs that failed, with the last line of each error."""
    table = Table(title="Failed jobs", title_justify="left")
    for header in ("job", "error"):
        table.add_column(header, overflow="fold")
    for job in jobs:
        table.add_row(job.name, job.error or "")
    return table


def _title(counts: Mapping[str, int]) -> str:
    kinds = ("finished", "skipped", "failed", "unfinished")
    return "All jobs: " + ", ".join(f"{counts[kind]} {kind}" for kind in kinds if counts[kind])


def _numbers(summary: Mapping[str, Any] | None, metrics: Sequence[str]) -> list[str]:
    if summary is None:
        return ["–"] * (8 + len(metrics))
    found = [summary.get("metrics", {}).get(column) for column in metrics]
    return [
        summary["policy"],
        summary["environment"],
        f"{summary['rounds']:,}",
        f"{summary['replicas']:,}",
        *(spread(summary[REGRETS[column]]) for column in sorted(REGRETS)),
        *("–" if metric is None else spread(metric) for metric in found),
        f"{summary['seconds']:.2f}",
        f"{summary['rounds_per_second']:,.0f}",
    ]


def spread(value: Mapping[str, float | None], digits: int = 1) -> str:
    """Mean ± std as text; a dash where there is none.

    >>> spread({"mean": 1234.56, "std": 7.89}), spread({"mean": 2.0, "std": None})
    ('1,234.6 ± 7.9', '2.0')
    """
    mean, std = value["mean"], value["std"]
    if mean is None:
        return "–"
    return f"{mean:,.{digits}f}" + ("" if std is None else f" ± {std:,.{digits}f}")

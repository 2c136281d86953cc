"""Tables of results on the screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from fairbandit.metrics import REGRETS

_WIDE = 160  # columns where no terminal says how many there are


def console() -> Console:
    """Returns a console on standard output, which is wide where that is a file or a pipe.

    Text is shown as it is: names of groups, of policies and of files are the users', and may look
    like markup or like emoji. Styles come in as `rich.text.Text`, or of columns and tables.
    """
    shown = Console(markup=False, emoji=False)
    return shown if shown.is_terminal else Console(width=_WIDE, markup=False, emoji=False)


def named(what: str, where: str | Path) -> Text:
    """Returns a line that names something and says where it is."""
    return Text.assemble((what, "bold"), "  ", str(where))


def make_table(
    headers: Sequence[str],
    rows: Iterable[Iterable[str]],
    *,
    right: Collection[str] = (),
    **options: Any,
) -> Table:
    """Returns a table with its title on the left, whose long words are folded.

    Args:
        headers: the columns.
        rows: the cells of each row.
        right: the headers of the columns whose cells stand on the right.
        options: further options of `rich.table.Table`.
    """
    table = Table(title_justify="left", **options)
    for header in headers:
        justify: JustifyMethod = "right" if header in right else "left"
        table.add_column(header, justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def run_table(summary: Mapping[str, Any]) -> Table:
    """Returns a table of one run, with a line for each quantity of its summary."""
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
    table = make_table(("", "value"), lines.items(), show_header=False, box=None, pad_edge=False)
    table.columns[0].style = "bold"
    return table


@dataclass(frozen=True)
class Outcome:
    """The outcome of a job of a sweep.

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
    """Makes the table that a sweep ends with: one row for each job, in the given order.

    A row holds the policy, the environment, and the mean and standard deviation of every metric
    over replicas; these cells are empty where a job has no results. There is a column of job names
    if two jobs have the same policy and environment, and a column of statuses unless every job is
    finished.

    Args:
        jobs: what became of each job, at least one.
    """
    counts = Counter(job.status for job in jobs)
    pairs = {(job.summary["policy"], job.summary["environment"]) for job in jobs if job.summary}
    named, status = len(pairs) < len(jobs), set(counts) != {"finished"}
    metrics = list(
        dict.fromkeys(name for job in jobs for name in (job.summary or {}).get("metrics", {}))
    )
    rows = [
        [
            *([job.name] if named else []),
            *([job.status] if status else []),
            *_numbers(job.summary, metrics),
        ]
        for job in jobs
    ]
    left = [*(["job"] if named else []), *(["status"] if status else []), "policy", "environment"]
    right = ["rounds", "replicas", "fair", "standard", *metrics, "seconds", "rounds/s"]
    kinds = ("finished", "skipped", "failed", "unfinished")
    told = ", ".join(f"{counts[kind]} {kind}" for kind in kinds if counts[kind])
    title = f"All jobs: {told}" if status else "All jobs"
    return make_table([*left, *right], rows, right=right, title=title)


def failures_table(jobs: Sequence[Outcome]) -> Table:
    """Returns a table of the jobs that failed, with the last line of each error."""
    rows = [(job.name, job.error or "") for job in jobs]
    return make_table(("job", "error"), rows, title="Failed jobs")


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
        *("–" if metric is None else spread(metric, 3) for metric in found),
        f"{summary['seconds']:.2f}",
        f"{summary['rounds_per_second']:,.0f}",
    ]


def spread(value: Mapping[str, float | None], digits: int = 1) -> str:
    """Formats mean ± std; a dash stands for an unknown mean.

    >>> spread({"mean": 1234.56, "std": 7.89}), spread({"mean": 2.0, "std": None})
    ('1,234.6 ± 7.9', '2.0')
    """
    mean, std = value["mean"], value["std"]
    if mean is None:
        return "–"
    return f"{mean:,.{digits}f}" + ("" if std is None else f" ± {std:,.{digits}f}")

"""Results on the screen: one run as a list, many as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

_WIDE = 160  # columns where no terminal says how many there are


def console() -> Console:
    """Standard output; wide where it is a file or a pipe."""
    shown = Console()
    return shown if shown.is_terminal else Console(width=_WIDE)


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
        "fair pseudo-regret": spread(summary["fair_pseudo_regret"]),
        "standard pseudo-regret": spread(summary["standard_pseudo_regret"]),
        **{f"selection rate, group {group}": spread(rate, 3) for group, rate in rates.items()},
        "time": f"{summary['seconds']:.2f} s, {summary['rounds_per_second']:,.0f} rounds/s",
    }
    for name, value in lines.items():
        table.add_row(name, value)
    return table


def sweep_table(jobs: Sequence[tuple[str, Mapping[str, Any]]]) -> Table:
    """Many runs' summaries, a row each.

    Args:
        jobs: names and summaries; names are shown where policy and environment do not tell the
            runs apart.
    """
    table = Table(title="All jobs", title_justify="left")
    told = {(summary["policy"], summary["environment"]) for _, summary in jobs}
    named = len(told) < len(jobs)
    for header in ("job",) if named else ():
        table.add_column(header, overflow="fold")
    for header in ("policy", "environment"):
        table.add_column(header, overflow="fold")
    for header in ("rounds", "replicas", "fair", "standard", "seconds", "rounds/s"):
        table.add_column(header, justify="right", overflow="fold")
    for name, summary in jobs:
        table.add_row(
            *([name] if named else []),
            summary["policy"],
            summary["environment"],
            f"{summary['rounds']:,}",
            f"{summary['replicas']:,}",
            spread(summary["fair_pseudo_regret"]),
            spread(summary["standard_pseudo_regret"]),
            f"{summary['seconds']:.2f}",
            f"{summary['rounds_per_second']:,.0f}",
        )
    return table


def spread(value: Mapping[str, float | None], digits: int = 1) -> str:
    """Mean ± std as text; a dash where there is none.

    >>> spread({"mean": 1234.56, "std": 7.89}), spread({"mean": 2.0, "std": None})
    ('1,234.6 ± 7.9', '2.0')
    """
    mean, std = value["mean"], value["std"]
    if mean is None:
        return "–"
    return f"{mean:,.{digits}f}" + ("" if std is None else f" ± {std:,.{digits}f}")

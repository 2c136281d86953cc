"""Tables of results on the screen."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
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
            column: spread(metric, 1 if column in REGRETS else 3)
            for column, metric in summary["metrics"].items()
        },
        **{f"selection rate, group {group}": spread(rate, 3) for group, rate in rates.items()},
        "time": f"{summary['seconds']:.2f} s",
    }
    table = make_table(("", "value"), lines.items(), show_header=False, box=None, pad_edge=False)
    table.columns[0].style = "bold"
    return table


def spread(value: Mapping[str, float | None], digits: int = 1) -> str:
    """Formats mean ± std; a dash stands for an unknown mean.

    >>> spread({"mean": 1234.56, "std": 7.89}), spread({"mean": 2.0, "std": None})
    ('1,234.6 ± 7.9', '2.0')
    """
    mean, std = value["mean"], value["std"]
    if mean is None:
        return "–"
    return f"{mean:,.{digits}f}" + ("" if std is None else f" ± {std:,.{digits}f}")

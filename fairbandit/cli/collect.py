"""`fairbandit collect`: gathers the summaries of many runs in one table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from fairbandit.cli.parsers import conditions, names_in, tool
from fairbandit.errors import FairbanditError, check_known
from fairbandit.runs import pooled, read_runs
from fairbandit.runs.naming import chosen
from fairbandit.runs.overview import overview
from fairbandit.runs.scenes import scenes_of
from fairbandit.runs.sheets import console, write
from fairbandit.runs.tables import column_of, differences, tidy

_WHOLE, _PRINTED = (".parquet", ".csv"), (".tex", ".md")
"""The endings of files of all results, and of tables for print."""


@tool("FOLDER", several=True)
def collect(
    folders: Sequence[Path],
    *,
    out: str | None = None,
    against: str | dict[str, Any] | None = None,
    by: Literal["group"] | None = None,
    columns: str | list[str] | None = None,
    policy: str | list[str] | None = None,
    where: dict[str, Any] | None = None,
    sort: str = "fair_regret",
) -> None:
    """Gathers every finished run below some folders into one table.

    Runs that differ only in their seeds are one setting, which pools their replicas. The most
    useful columns are printed. A file has the keys that differ by their dotted names, and a row for
    each setting, measure and group, with the number n of replicas, the mean and std over them, and
    a 95 % interval of the mean, as `fairbandit.pooled` or `fairbandit.compare` returns them.

    With against, rows are the other settings, and results are their differences from this baseline,
    replica by replica. With against=optimal, the cost_per_pick of gmf is the cost of fairness, in
    the unit of a table's reward; for other policies it includes the cost of learning.

      out=FILE         replaces this file by all results (.parquet, .csv), or by a table for print,
                       with labels and the best in bold (.tex, .md)
      against=POLICY   shows differences from this policy, or from the setting with this label, with
                       intervals
      by=group         adds the share, reward, rank, regret and cost of the picks of each group
      columns=NAMES    the results to show, by commas
      policy=NAMES     only runs of these policies
      where.KEY=VALUES only runs with one of these values; every where must hold
      sort=NAME        a result, the best first, or a setting by which rows are sorted [fair_regret]

    examples:
      fairbandit collect outputs
      fairbandit collect one_folder another_folder out=results.csv
      fairbandit collect outputs against=optimal by=group
      fairbandit collect outputs columns=fair_regret,selection_rate:f sort=selection_rate:f
      fairbandit collect outputs policy=greedy,fair_greedy out=table.tex
    """
    import pandas as pd

    file = Path(out) if out else None
    if file and file.suffix not in (*_WHOLE, *_PRINTED):
        endings = ", ".join((*_WHOLE, *_PRINTED))
        raise FairbanditError(f"{file} must end in one of {endings}, which sets the format")
    names, allowed, runs = names_in(columns), conditions(where, policy), read_runs(folders)
    if against is None:
        rows = [row for scene in scenes_of(chosen(runs, allowed)) for row in scene.runs]
    else:
        scenes = scenes_of(runs, differences(tidy(runs), against))
        rows = chosen([row for scene in scenes for row in scene.runs], allowed)
    if file and file.suffix in _WHOLE:
        table = pooled(pd.concat([row.table for row in rows]).sort_index())
        measured = table["measure"].combine(table["group"], column_of)
        check_known("column", names, dict.fromkeys([*measured, *table["measure"]]))
        named = measured.isin(names) | table["measure"].isin(names)
        write(table[named] if names else table, file)
    else:
        options: Any = {"columns": names or None, "sort": sort, "printed": file is not None}
        result = overview(rows, groups=by == "group", **options)
        if file:
            write(result, file)
        else:
            console().print(result)
    count = sum(len(row.runs) for row in rows)
    counted = f"{count:,} run{'s' * (count != 1)} of {len(rows):,} setting{'s' * (len(rows) != 1)}"
    print(f"{counted}: {out}" if out else counted)

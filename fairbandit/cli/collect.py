"""`fairbandit collect`: gathers the summaries of many runs in one table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairbandit.cli.parsers import conditions, names_in, read_words
from fairbandit.errors import FairbanditError, check_known
from fairbandit.runs import pooled, read_runs
from fairbandit.runs.folder import SUMMARY
from fairbandit.runs.naming import chosen
from fairbandit.runs.overview import overview
from fairbandit.runs.scenes import scenes_of
from fairbandit.runs.sheets import Sheet, console, write
from fairbandit.runs.summary import KEYS
from fairbandit.runs.tables import column_of, differences, tidy

if TYPE_CHECKING:
    import pandas as pd

_WHOLE, _PRINTED = (".parquet", ".csv"), (".tex", ".md")
"""The endings of files of all results, and of tables for print."""

_HELP = f"""\
Gathers the {SUMMARY} of every finished run below some folders into one tidy table. Runs that
differ only in their seeds are one setting, which pools their replicas.

A file has the label of a setting; {", ".join(KEYS[:3])}, and the other
keys that differ, by their dotted names; and a row for each measure and group, with the number n of
replicas, the mean and std over them, and a 95 % interval of the mean, from low to high. It is the
table of `fairbandit.pooled` or `fairbandit.compare`.

With against, rows are the other settings, and results are their differences from this baseline,
replica by replica. Against optimal, the cost_per_pick of gmf is the cost of fairness in the unit of
a table's reward, and of other policies also the cost of learning.

Without out, the most useful columns are printed.

  out=FILE         replaces this file by all results (.parquet, .csv), or by a table for print, with
                   labels and the best in bold (.tex, .md)
  against=POLICY   shows differences from this policy, or from the setting with this label, with
                   intervals
  by=group         adds the share, reward, rank, regret and cost of the picks of each group
  columns=NAMES    the results to show, by commas
  policy=NAMES     only runs of these policies
  where.KEY=VALUES only runs with one of these values; every where must hold
  sort=NAME        a result, the best first, or a setting by which rows are sorted [fair_regret,
                   where it is printed]

examples:
  fairbandit collect outputs
  fairbandit collect outputs out=results.csv
  fairbandit collect outputs by=group
  fairbandit collect outputs against=optimal
  fairbandit collect one_folder another_folder out=settings.parquet
  fairbandit collect outputs columns=fair_regret,selection_rate:f sort=selection_rate:f
  fairbandit collect outputs policy=greedy,fair_greedy out=table.tex"""

_KEYS = ("out", "against", "by", "columns", "policy", "where", "sort")


def collect(words: Sequence[str]) -> None:
    """Gathers runs, and prints them or writes them to a file."""
    import pandas as pd

    read = read_words("collect", _HELP, words, "FOLDER", several=True)
    given: dict[str, Any] = {**dict.fromkeys(_KEYS), **read.only(_KEYS)}
    check_known("value of by", {given["by"]} - {None}, ["group"])
    out = None if given["out"] is None else Path(str(given["out"]))
    if out and out.suffix not in (*_WHOLE, *_PRINTED):
        endings = ", ".join((*_WHOLE, *_PRINTED))
        raise FairbanditError(f"{out} must end in one of {endings}, which sets the format")
    columns = names_in(given["columns"]) or None
    where = conditions(given["where"] or {})
    where |= {"policy": policies} if (policies := names_in(given["policy"])) else {}
    runs = read_runs(read.paths)
    if given["against"] is None:
        rows = [row for scene in scenes_of(chosen(runs, where)) for row in scene.runs]
    else:
        scenes = scenes_of(runs, differences(tidy(runs), given["against"]))
        rows = chosen([row for scene in scenes for row in scene.runs], where)
    result: Sheet | pd.DataFrame
    if out and out.suffix in _WHOLE:
        whole = pd.concat([row.table for row in rows]).sort_index()
        result = _of_columns(pooled(whole), columns)
    else:
        sort, groups = given["sort"] or "fair_regret", given["by"] == "group"
        printed = out is not None
        result = overview(rows, groups=groups, columns=columns, sort=sort, printed=printed)
    if out:
        write(result, out)
    else:
        console().print(result)
    count = sum(len(row.runs) for row in rows)
    counted = f"{count:,} run{'s' * (count != 1)} of {len(rows):,} setting{'s' * (len(rows) != 1)}"
    print(f"{counted}: {out}" if out else counted)


def _of_columns(table: pd.DataFrame, columns: Sequence[str] | None) -> pd.DataFrame:
    """Returns the rows of some measures, `MEASURE` or `MEASURE:GROUP`; None returns all."""
    if columns is None:
        return table
    names = table["measure"].combine(table["group"], column_of)
    known = [*dict.fromkeys([*names, *table["measure"]])]
    check_known("column", columns, known)
    return table[names.isin(columns) | table["measure"].isin(columns)]

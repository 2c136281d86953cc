"""`fairbandit collect`: gathers the summaries of many runs in one table."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fairbandit.cli.parsers import conditions, names_in, read_words
from fairbandit.errors import FairbanditError, check_known
from fairbandit.files.files import written_aside
from fairbandit.runs import pooled, read_runs
from fairbandit.runs.folder import SUMMARY
from fairbandit.runs.naming import chosen
from fairbandit.runs.overview import overview
from fairbandit.runs.scenes import scenes_of
from fairbandit.runs.sheets import console, write
from fairbandit.runs.summary import KEYS
from fairbandit.runs.tables import column_of, differences, tidy

if TYPE_CHECKING:
    import pandas as pd

_FORMATS = {".parquet": None, ".csv": None, ".tex": "latex", ".md": "markdown"}
"""The format of the table that is printed, by the ending of a file; None for the whole table."""

_HELP = f"""\
Gathers the {SUMMARY} of every finished run below some folders into one tidy table. Runs that
differ only in their seeds are one setting, which pools their replicas. With each=true, every run is
on its own.

A file has the label of a setting; {", ".join(KEYS[:3])}, and the other
keys that differ, by their dotted names; and a row for each measure and group, with the number n of
replicas, the mean and std over them, and a 95 % interval of the mean, from low to high. It is the
table of `fairbandit.pooled` or `fairbandit.compare`.

With against, rows are the other settings, and results are their differences from this baseline,
replica by replica. Against optimal, the cost_per_pick of gmf is the cost of fairness in the unit of
a table's reward, and of other policies also the cost of learning.

Without out, the most useful columns are printed.

  out=FILE         replaces this file by all results (.parquet, .csv), or by the table for print
                   (.tex, .md)
  each=true        a row for every run
  against=POLICY   shows differences from this policy, or from the setting with this label, with
                   intervals
  by=group         adds the share, reward, rank, regret and cost of the picks of each group
  columns=NAMES    the results to show, by commas
  policy=NAMES     only runs of these policies
  where.KEY=VALUES only runs with one of these values; every where must hold
  sort=NAME        a result, the best first, or a setting by which rows are sorted [fair_regret,
                   where it is printed]
  format=NAME      prints a table to paste, with labels and the best in bold: markdown or latex

examples:
  fairbandit collect outputs
  fairbandit collect outputs out=results.csv
  fairbandit collect outputs by=group
  fairbandit collect outputs against=optimal
  fairbandit collect one_folder another_folder each=true out=runs.parquet
  fairbandit collect outputs columns=fair_regret,selection_rate:f sort=selection_rate:f
  fairbandit collect outputs policy=greedy,fair_greedy out=table.tex"""

_KEYS = ("out", "each", "against", "by", "columns", "policy", "where", "sort", "format")


def collect(words: Sequence[str]) -> None:
    """Gathers runs, and prints them or writes them to a file."""
    import pandas as pd

    read = read_words("collect", _HELP, words, "FOLDER", several=True)
    given = Namespace(**{**dict.fromkeys(_KEYS), **read.only(_KEYS)})
    if given.each and given.against is not None:
        raise FairbanditError("collect: expected each=true or against=POLICY, not both")
    check_known("value of by", {given.by} - {None}, ["group"])
    check_known("format", {given.format} - {None}, ["markdown", "latex"])
    out = None if given.out is None else Path(str(given.out))
    if out and out.suffix not in _FORMATS:
        raise FairbanditError(f"{out} must end in one of {', '.join(_FORMATS)}: it sets the format")
    form = _FORMATS[out.suffix] if out else given.format
    if given.format not in (None, form):
        raise FairbanditError(f"collect: format={given.format} contradicts the name {out}")
    columns = names_in(given.columns) or None
    where = conditions(given.where or {})
    where |= {"policy": policies} if (policies := names_in(given.policy)) else {}
    runs = read_runs(read.paths)
    if given.against is None:
        runs = chosen(runs, where)
        scenes = scenes_of(runs, each=bool(given.each))
    else:
        scenes = scenes_of(runs, differences(tidy(runs), given.against))
    rows = [row for scene in scenes for row in scene.runs]
    rows = rows if given.against is None else chosen(rows, where)
    count = sum(len(row.runs) for row in rows)
    counted = f"{count:,} run{'s' * (count != 1)}"
    if not given.each:
        counted += f" of {len(rows):,} setting{'s' * (len(rows) != 1)}"
    if form is None and out:
        whole = pd.concat([row.table for row in rows]).sort_index()
        table = _of_columns(pooled(whole, each=given.each), columns)
        write(table, out)
        print(f"{counted} in {len(table):,} rows: {out}")
        return
    choice = {} if given.sort is None else {"sort": given.sort}
    groups, printed = given.by == "group", form is not None
    sheet = overview(rows, groups=groups, columns=columns, printed=printed, **choice)
    if form is None:
        console().print(sheet)
        print(counted)
    elif out is None:
        print(sheet.exported(form), end="")
    else:
        out.parent.mkdir(parents=True, exist_ok=True)
        with written_aside(out) as file:
            file.write(sheet.exported(form).encode())
        print(f"{counted}: {out}")


def _of_columns(table: pd.DataFrame, columns: Sequence[str] | None) -> pd.DataFrame:
    """Returns the rows of some measures, `MEASURE` or `MEASURE:GROUP`; None returns all."""
    if columns is None:
        return table
    names = table["measure"].combine(table["group"], column_of)
    known = [*dict.fromkeys([*names, *table["measure"]])]
    check_known("column", columns, known)
    return table[names.isin(columns) | table["measure"].isin(columns)]

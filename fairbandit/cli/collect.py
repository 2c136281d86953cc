"""`fairbandit collect`: gathers the summaries of many runs in one table."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import pyarrow.csv

from fairbandit.cli.parsers import tool_parser
from fairbandit.results import pool, read_runs
from fairbandit.results.overview import overview
from fairbandit.results.runs import KEYS
from fairbandit.results.table import ENDINGS, tidy, write
from fairbandit.run.folder import SUMMARY
from fairbandit.run.table import console

FORMATS = ("markdown", "latex", "csv")
"""How tables are exported."""

SHOWN = 20
"""How many settings are printed."""

_HELP = f"""\
Gathers the {SUMMARY} of every finished run below some folders into one tidy table. Runs that
differ only in their seeds are one setting, with a row of its own and all their replicas; --each
gives every run its row, --over pools over other keys than the seed.

Columns, in this order:
  {", ".join(KEYS)}    always, without the keys pooled over
  policy.rank.name, policy.estimator.noise, ...  the keys that differ, by their dotted names (the
                                             environment's and the versions' too); null where
                                             a row has no such key
  runs                                       how many were pooled
  fair_regret_mean, ..._std                  over all replicas, at the last round, with their
  standard_regret_mean, ..._std              number ..._n and a 95 % interval of the mean by
  <column>_mean, ..._std                     Student's t distribution, ..._low to ..._high;
                                             <column> is any metric that was asked for
  selection_rate_<group>_mean, ..._std       selected from the group / received from it;
                                             selected_ and received_ likewise
  seconds                                    of all runs together
With --each there is no runs, _n, _low and _high, but
  folder                                     relative to FOLDER (after FOLDER, if several)

Without --out the first rows are printed, with the most useful columns; --format prints all rows:
as markdown or latex those columns, as csv the whole table."""

_EXAMPLES = """\
examples:
  fairbandit collect outputs
  fairbandit collect outputs/sweeps/ranks --out ranks.csv
  fairbandit collect outputs --over seed,policy.estimator.noise
  fairbandit collect one_folder another_folder --each --out runs.parquet
  fairbandit collect outputs --format latex > table.tex
  python -c 'import fairbandit; print(fairbandit.load("outputs").pooled())'"""


def collect(words: Sequence[str]) -> None:
    """Gathers runs, and prints them or writes them to a file."""
    parser = tool_parser("collect", _HELP, _EXAMPLES, folders=True)
    add, out = parser.add_argument, f"writes the whole table here ({' or '.join(ENDINGS)}), "
    add("--out", type=Path, metavar="FILE", help=f"{out}replacing the file")
    add("--over", default="seed", metavar="KEYS", help="pools over these, separated by commas")
    add("--each", action="store_true", help="a row for every run")
    add("--format", choices=FORMATS, help="how the table is printed")
    given = parser.parse_args(words)
    runs = read_runs(given.folders)
    over = () if given.each else [key.strip() for key in given.over.split(",") if key.strip()]
    rows = pool(runs, over)
    counted = f"{len(runs):,} run{'s' * (len(runs) != 1)}"
    if not given.each:
        counted += f" of {len(rows):,} setting{'s' * (len(rows) != 1)}"
    table = tidy(runs if given.each else rows)
    if given.out is not None:
        write(table, given.out)
        print(f"{counted} in {table.num_columns} columns: {given.out}")
    elif given.format == "csv":
        pyarrow.csv.write_csv(table, held := BytesIO())
        print(held.getvalue().decode(), end="")
    elif given.format is not None:
        print(overview(rows, folders=given.each).exported(given.format), end="")
    else:
        console().print(overview(rows[:SHOWN], folders=given.each))
        more = f", the first {SHOWN} shown; --out keeps all" if len(rows) > SHOWN else ""
        print(f"{counted}{more}")

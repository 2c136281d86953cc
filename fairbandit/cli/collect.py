"""`fairbandit collect`: gathers the summaries of many runs in one table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fairbandit.cli.parsers import split_names, tool_parser
from fairbandit.results import pool, read_runs
from fairbandit.results.naming import chosen
from fairbandit.results.runs import KEYS
from fairbandit.results.table import overview, tidy
from fairbandit.run.folder import SUMMARY
from fairbandit.run.table import ENDINGS, console, write

_HELP = f"""\
Gathers the {SUMMARY} of every finished run below some folders into one tidy table. Runs that
differ only in their seeds are one setting: they share a row, which pools their replicas. With
--each, every run has its own row.

Columns: {", ".join(KEYS)}; the keys that differ, by their dotted names, null where a
row lacks the key; and for every metric and every group's rates the mean and std over all replicas
at the last round, their number n, and a 95 % interval of the mean, from low to high.

Without --out, the most useful columns are printed."""

_EXAMPLES = """\
examples:
  fairbandit collect outputs
  fairbandit collect outputs --out results.csv
  fairbandit collect outputs --by group
  fairbandit collect one_folder another_folder --each --out runs.parquet
  fairbandit collect outputs --columns fair_regret,selection_rate_f --sort selection_rate_f
  fairbandit collect outputs --policies greedy,fair_greedy --format latex > table.tex"""


def collect(words: Sequence[str]) -> None:
    """Gathers runs, and prints them or writes them to a file."""
    parser = tool_parser("collect", _HELP, _EXAMPLES, folders=True)
    add, out = parser.add_argument, f"writes the whole table here ({' or '.join(ENDINGS)}), "
    add("--out", type=Path, metavar="FILE", help=f"{out}replacing the file")
    add("--each", action="store_true", help="a row for every run")
    add("--by", choices=("group",), help="adds the share, reward, rank and regret of its picks")
    add("--columns", type=split_names, metavar="NAMES", help="the results to print, by commas")
    add("--policies", type=split_names, metavar="NAMES", help="only runs of some policies")
    text = "a result, the best first, or a setting by which the printed rows are sorted"
    add("--sort", default="fair_regret", metavar="NAME", help=f"{text} [fair_regret]")
    text = "prints a table to paste, with labels and the best in bold; > FILE writes it to a file"
    add("--format", choices=("markdown", "latex"), help=text)
    given = parser.parse_args(words)
    runs = read_runs(given.folders)
    where = {} if given.policies is None else {"policy": given.policies}
    runs = [runs[at] for at in chosen([run.settings for run in runs], where)]
    rows, groups = pool(runs, each=given.each), given.by == "group"
    choice = {"groups": groups, "columns": given.columns, "sort": given.sort}
    counted = f"{len(runs):,} run{'s' * (len(runs) != 1)}"
    if not given.each:
        counted += f" of {len(rows):,} setting{'s' * (len(rows) != 1)}"
    if given.out is not None:
        table = tidy(rows, groups=groups)
        write(table, given.out)
        print(f"{counted} in {table.num_columns} columns: {given.out}")
    elif given.format is not None:
        print(overview(rows, **choice, printed=True).exported(given.format), end="")
    else:
        console().print(overview(rows, **choice))
        print(counted)

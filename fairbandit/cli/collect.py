"""`fairbandit collect`: gathers the summaries of many runs in one table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from fairbandit.cli.parsers import tool_parser
from fairbandit.metrics import REGRETS
from fairbandit.results import SavedRun, read_runs
from fairbandit.results.runs import KEYS
from fairbandit.results.scenes import union
from fairbandit.results.table import ENDINGS, FOLDER, check_ending, settings_shown, tidy, write
from fairbandit.run.folder import SUMMARY
from fairbandit.run.table import console, make_table, spread

SHOWN = 20
"""How many runs are printed."""

_HELP = f"""\
Gathers the {SUMMARY} of every finished run below some folders into one tidy table: a row a run,
a column for each key of the config in which the runs differ, and the metrics.

Columns, in this order:
  {", ".join(KEYS)}    always
  policy.rank.name, policy.estimator.noise, ...  the keys that differ, by their dotted names (the
                                             environment's and the versions' too); null where
                                             a run has no such key
  fair_pseudo_regret_mean, ..._std           over a run's replicas, at its last round
  standard_pseudo_regret_mean, ..._std
  <column>_mean, ..._std                     of every metric that a run was asked for
  selection_rate_<group>_mean, ..._std       selected from the group / received from it;
                                             selected_ and received_ likewise
  seconds, rounds_per_second
  folder                                     relative to FOLDER (after FOLDER, if several)

Without --out the first runs are printed, with the most telling columns."""

_EXAMPLES = """\
examples:
  fairbandit collect outputs
  fairbandit collect outputs/sweeps/ranks --out ranks.csv
  fairbandit collect one_folder another_folder --out runs.parquet
  python -c 'import pyarrow.parquet as p; print(p.read_table("runs.parquet"))'"""


def collect(words: Sequence[str]) -> None:
    """Gathers runs, and prints them or writes them to a file.

    Args:
        words: folders, and `--out FILE`.

    Raises:
        FairbanditError: wrong words, a folder that is not there, a file that is no summary, no
            run at all, or a file that cannot be written.
    """
    parser = tool_parser("collect", _HELP, _EXAMPLES)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="where runs are")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help=f"writes the whole table here ({' or '.join(ENDINGS)}), replacing the file",
    )
    given = parser.parse_args(words)
    if given.out is not None:
        check_ending(given.out)
    runs = read_runs(given.folders)
    if given.out is None:
        console().print(_table(runs))
        more = f", the first {SHOWN} shown; --out keeps all" if len(runs) > SHOWN else ""
        print("1 run" if len(runs) == 1 else f"{len(runs):,} runs{more}")
        return
    table = tidy(runs)
    write(table, given.out)
    print(f"{table.num_rows:,} runs in {table.num_columns} columns: {given.out}")


def _table(runs: Sequence[SavedRun]) -> Table:
    """Returns a table of the first runs: what they differ in, their metrics and their times."""
    keys = settings_shown(runs)
    metrics = sorted(REGRETS) + [c for c in union(r.metrics for r in runs) if c not in REGRETS]
    rows = [
        [
            *("" if (value := run.settings.get(key)) is None else str(value) for key in keys),
            *(
                spread(run.metrics[column], 1 if column in REGRETS else 3)
                if column in run.metrics
                else ""
                for column in metrics
            ),
            f"{run.summary['seconds']:.2f}",
            run.place,
        ]
        for run in runs[:SHOWN]
    ]
    right = [*(column.removesuffix("_regret") for column in metrics), "seconds"]
    return make_table([*keys, *right, FOLDER], rows, right=right)

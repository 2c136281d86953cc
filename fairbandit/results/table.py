"""Saved runs as one table: a row for each run, a column for each metric and differing setting."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from fairbandit.errors import FairbanditError
from fairbandit.metrics import REGRETS
from fairbandit.results.runs import KEYS, SavedRun
from fairbandit.results.scenes import differing, union
from fairbandit.run.folder import written_aside
from fairbandit.run.summary import TIMINGS

FOLDER = "folder"
"""The column that says where a run's files are."""

ENDINGS = (".parquet", ".csv")
"""The endings of the files that a table can be written to."""


def settings_shown(runs: Sequence[SavedRun]) -> list[str]:
    """Returns the settings that tables show: `KEYS`, and those in which the runs differ."""
    return [*KEYS, *(key for key in differing([run.settings for run in runs]) if key not in KEYS)]


def tidy(runs: Sequence[SavedRun]) -> pa.Table:
    """Makes one table of runs, a row each.

    Its columns are the settings of `settings_shown`, the metrics, and `folder`; what a run does
    not have is null.
    """
    columns = {
        key: _column([run.settings.get(key) for run in runs]) for key in settings_shown(runs)
    }
    results = [_numbers(run.summary) for run in runs]
    for name in union(results):
        columns[name] = _column([row.get(name) for row in results])
    columns[FOLDER] = _column([run.place for run in runs])
    return pa.table(columns)


def check_ending(path: Path) -> None:
    """Refuses a file that `write` cannot write.

    Raises:
        FairbanditError: the ending is not among `ENDINGS`.
    """
    if path.suffix not in ENDINGS:
        raise FairbanditError(
            f"{path} must end in {' or '.join(ENDINGS)}, which says how the table is written"
        )


def write(table: pa.Table, path: Path) -> None:
    """Writes a table as Parquet or CSV, as the file's suffix says, whole or not at all.

    Raises:
        FairbanditError: the ending is unknown, or the file cannot be written.
    """
    check_ending(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_aside(path) as file:
            if path.suffix == ".csv":
                pyarrow.csv.write_csv(table, file)
            else:
                pyarrow.parquet.write_table(table, file, write_page_checksum=True)
    except OSError as error:
        raise FairbanditError(f"cannot write {path}: {error.strerror or error}") from error


def _numbers(summary: Mapping[str, Any]) -> dict[str, float | None]:
    """Every result of a summary by its column, such as selection_rate_<group>_mean."""
    spreads = {key: summary[key] for key in sorted(REGRETS.values())} | summary.get("metrics", {})
    for key in ("selection_rate", "selected", "received"):
        spreads |= {f"{key}_{group}": spread for group, spread in summary[key].items()}
    parts = ("mean", "std")
    found = {f"{name}_{part}": one[part] for name, one in spreads.items() for part in parts}
    return found | {key: summary[key] for key in TIMINGS}


def _column(values: Sequence[Any]) -> pa.Array:
    """Values as whole numbers, numbers, truth values or text, whichever holds them all."""
    types = {type(value) for value in values if value is not None}
    if types == {int} and all(abs(value or 0) < 2**63 for value in values):
        return pa.array(values, pa.int64())
    if types <= {int, float}:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    if types == {bool}:
        return pa.array(values, pa.bool_())
    texts = [v if v is None or isinstance(v, str) else json.dumps(v) for v in values]
    return pa.array(texts, pa.string())

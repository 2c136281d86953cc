"""Many runs' summaries as one tidy table: a row a run, a column a differing key or a metric."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from fairbandit.errors import FairbanditError
from fairbandit.run import summary as summaries
from fairbandit.run.folder import SUMMARY, finished_below, written_aside

KEYS = summaries.KEYS
"""Columns that always stand, whether or not the runs differ in them."""

FOLDER = "folder"
"""The column that says where a run's files are."""

ENDINGS = (".parquet", ".csv")
"""What a table can be written as."""

Row = dict[str, Any]

_NO_METRIC = {*KEYS, "groups", "config", "versions", "identity", "files", summaries.CHECKSUM}
_NAMES = {"policy.name", "environment.name"}  # under config: the columns policy and environment


def gather(folders: Sequence[Path]) -> tuple[list[Row], list[Row]]:
    """Reads every summary below some folders.

    Args:
        folders: where to look, at any depth.

    Returns:
        The config of each run, its dotted keys, and the results of each, its metrics and
        `folder`: the run's folder, relative to the given one, or with the given one before it
        where several are given. Runs are in the order of their folders, 2 before 10.

    Raises:
        FairbanditError: a folder that is not there, a file that is no summary, or none at all.
    """
    found: dict[str, tuple[str, str]] = {}
    for folder in folders:
        for path in _summaries(folder):
            place = os.path.relpath(os.path.dirname(path), folder)  # noqa: PTH120 - 10,000 of them
            shown = str(folder / place) if len(folders) > 1 else place
            found.setdefault(os.path.realpath(path), (shown, path))
    if not found:
        raise FairbanditError(
            f"no finished run below {', '.join(map(str, folders))}: a run leaves a {SUMMARY}"
        )
    configs, results = [], []
    for shown, path in sorted(found.values(), key=lambda pair: _natural(pair[0])):
        summary = summaries.read_file(path)
        configs.append(_config(summary))
        results.append({**_metrics(summary), FOLDER: shown})
    return configs, results


def tidy(configs: Sequence[Row], results: Sequence[Row]) -> pa.Table:
    """One table of what `gather` gave.

    Args:
        configs: a run's dotted keys; those in which all runs agree are left out, but for `KEYS`.
        results: a run's metrics and its folder.

    Returns:
        The table; a key that a run does not have is null.
    """
    kept = [*KEYS, *differing(configs)]
    columns = {key: _column([config.get(key) for config in configs]) for key in kept}
    for name in _union(results):
        columns[name] = _column([row.get(name) for row in results])
    return pa.table(columns)


def differing(configs: Sequence[Row]) -> list[str]:
    """The dotted keys beside `KEYS` in which not all runs agree, in the configs' order."""
    return [
        key
        for key in _union(configs)
        if key not in KEYS and len({_same(config.get(key)) for config in configs}) > 1
    ]


def check_ending(path: Path) -> None:
    """Refuses a file that `write` cannot write.

    Raises:
        FairbanditError: an ending that is not among `ENDINGS`.
    """
    if path.suffix not in ENDINGS:
        raise FairbanditError(
            f"{path} must end in {' or '.join(ENDINGS)}, which says how the table is written"
        )


def write(table: pa.Table, path: Path) -> None:
    """Writes a table as Parquet or CSV, by the file's ending, whole or not at all.

    Raises:
        FairbanditError: an unknown ending, or a place that cannot be written to.
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


def _summaries(folder: Path) -> Iterator[str]:
    """The paths of all summaries below a folder."""

    def refuse(error: OSError) -> None:
        raise FairbanditError(f"cannot read {error.filename}: {error.strerror}") from error

    if not folder.is_dir():
        raise FairbanditError(f"{folder} is not a folder")
    for place in finished_below(folder, refuse):
        yield os.path.join(place, SUMMARY)  # noqa: PTH118 - 10,000 of them


def _config(summary: Mapping[str, Any]) -> Row:
    """The resolved config by dotted keys, and the versions it ran with."""
    flat = dict(_flat(summary["config"]))
    flat.update({f"versions.{key}": value for key, value in _flat(summary.get("versions", {}))})
    own = {key: summary[key] for key in KEYS}
    return own | {key: value for key, value in flat.items() if key not in {*KEYS, *_NAMES}}


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and plain values; a list is one value, as JSON."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", json.dumps(value) if isinstance(value, list) else value


def _metrics(summary: Mapping[str, Any]) -> Row:
    """Every number of a summary, named by its levels: selection_rate_<group>_mean."""
    return dict(_numbers({k: v for k, v in summary.items() if k not in _NO_METRIC}))


def _numbers(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float | None]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _numbers(value, f"{prefix}{key}_")
        elif value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
            yield f"{prefix}{key}", value


def _union(rows: Iterable[Row]) -> list[str]:
    """The names that occur in any row; one that only some rows have stands where they have it."""
    order: list[str] = []
    known: set[str] = set()
    for row in rows:
        if row.keys() <= known:
            continue
        at = 0
        for name in row:
            if name in known:
                at = order.index(name) + 1
            else:
                order.insert(at, name)
                known.add(name)
                at += 1
    return order


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


def _same(value: Any) -> tuple[bool, Any]:
    """Tells True from 1, which Python does not."""
    return isinstance(value, bool), value


def _natural(text: str) -> list[tuple[bool, int, str]]:
    """A sort key by which 2 comes before 10."""
    pieces = re.findall(r"([0-9]+)|([^0-9]+)", text)
    return [(bool(letters), int(digits or 0), letters) for digits, letters in pieces]

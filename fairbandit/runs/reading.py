"""Reads the Parquet files of a finished run, and verifies their hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fairbandit.errors import FairbanditError
from fairbandit.files.files import open_regular
from fairbandit.runs.folder import CURVES, FINALS, REWARDS, ROUNDS
from fairbandit.runs.record import CURVES_SCHEMA, SCHEMA, Key, index_of, measured, sampled
from fairbandit.runs.round_log import REWARDS_SCHEMA, schema

if TYPE_CHECKING:
    import pandas as pd

_SCHEMAS = {FINALS: SCHEMA, CURVES: CURVES_SCHEMA, REWARDS: REWARDS_SCHEMA}


_TIDY = (FINALS, CURVES)  # whose columns are compared as a whole with those of their run


def read(
    folder: Path, name: str, summary: Mapping[str, Any], columns: Sequence[str] | None = None
) -> pa.Table:
    """Reads columns of a Parquet file of a finished run, and verifies its hash.

    Raises:
        FairbanditError: the file or a column is missing, or the file has changed.
    """
    with _opened(folder / name) as file:
        data = file.read()
        if hashlib.sha256(data).hexdigest() != summary["files"].get(name):
            raise ValueError("its contents have changed since its run wrote it")
        # without read-ahead, whose threads could outlive the process
        with pq.ParquetFile(pa.BufferReader(data), pre_buffer=False) as parquet:
            present = parquet.schema_arrow
            missing = sorted(set(columns or ()) - set(present.names))
            if missing:
                raise ValueError(f"it lacks the column {', '.join(map(repr, missing))}")
            log = schema(summary["metrics"], summary["config"]["picks"])
            if not present.equals(_SCHEMAS.get(name, log)):
                raise ValueError("its columns differ from the columns of a run")
            table = parquet.read(columns, use_threads=False)
        floats = [c.to_numpy() for c in table.columns if pa.types.is_floating(c.type)]
        if any(np.fmax.reduce(np.abs(values), initial=0.0) > 1e100 for values in floats):
            raise ValueError("it holds numbers above 1e100, which overflow in figures")
        ranges = {
            "round": (1, summary["rounds"]),
            "replica": (0, summary["replicas"] - 1),
            "group": (-1, len(summary["groups"]) - 1),  # −1: a round without a pick
        }
        for key in (key for key in table.column_names if key in ranges and name not in _TIDY):
            numbers, (low, high) = table[key].to_numpy(), ranges[key]
            if not (numbers.min() >= low and numbers.max() <= high):  # or NaN
                raise ValueError(f"a number of a {key} is out of range for its run")
    return table


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    with open_regular(path) as file:
        try:
            yield file
        except (OSError, ValueError, pa.ArrowException) as error:
            raise FairbanditError(
                f"{path} cannot be read: {error}. Restore the file, or remove the run's folder and "
                "play the run again"
            ) from error


def logs(
    folder: Path, summary: Mapping[str, Any], columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """Returns the files of a finished run's round log, or some of their columns, in order."""
    names, rows = sorted(name for name in summary["files"] if name.startswith(f"{ROUNDS}/")), 0
    for name in names:
        with _opened(folder / name) as file:
            rows += pq.read_metadata(file).num_rows
    if rows < summary["rounds"] * summary["replicas"]:  # an array of all rounds may be too large
        raise FairbanditError(f"{folder}: {rows:,} rows are too few for all rounds and replicas")
    return (read(folder, name, summary, columns) for name in names)


def read_tidy(
    folder: Path, name: str, summary: Mapping[str, Any]
) -> tuple[pa.Table, dict[Key, NDArray[np.int64]]]:
    """Reads the finals or the curves of a finished run.

    Returns:
        The table, by measure, then by replica; and the rounds of each measure in it.

    Raises:
        FairbanditError: the file is missing or has changed, or holds other measures.
    """
    table, groups = read(folder, name, summary), summary["groups"]
    if name == FINALS:
        keys = measured(summary["metrics"], groups, summary.get("unit"))
        steps = dict.fromkeys(keys, np.array([summary["rounds"]]))
    else:
        steps = sampled(summary["rounds"], summary["metrics"], groups)
    rows = summary["replicas"] * sum(map(len, steps.values()))
    schema = _SCHEMAS[name]
    own = table.drop_columns("value")
    if len(table) != rows or not own.equals(index_of(steps, summary["replicas"], schema)):
        raise FairbanditError(f"{folder / name} does not hold the {Path(name).stem} of its run")
    return table, steps


def read_rewards(folder: Path, summary: Mapping[str, Any]) -> tuple[pd.DataFrame | None, ...]:
    """Reads the columns value, density and cdf of each group's true rewards; None if not known."""
    codes = range(len(summary["groups"]))
    if not (folder / REWARDS).exists():
        return (None,) * len(codes)
    known = dict(iter(read(folder, REWARDS, summary).to_pandas().groupby("group")))
    return tuple(known.get(code) for code in codes)


def read_picks(folder: Path, summary: Mapping[str, Any], first: int = 0) -> NDArray[np.int64]:
    """Returns the number of replicas, from `first` on, that picked each group by round, (T, G)."""
    tables = logs(folder, summary, ["replica", "round", "group"])  # before an array is made
    counts = np.zeros((summary["rounds"], len(summary["groups"]) + 1), np.int64)
    for table in tables:
        replicas, rounds, groups = (column.to_numpy() for column in table.columns)
        own = replicas >= first
        np.add.at(counts, (rounds[own] - 1, groups[own]), 1)  # the last column is for no pick, −1
    if counts.sum(1).min() < summary["replicas"] - first:
        raise FairbanditError(f"{folder}: the round log lacks picks of some rounds")
    return counts[:, :-1]

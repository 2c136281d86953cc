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
import torch
from numpy.typing import NDArray

from fairbandit.errors import FairbanditError
from fairbandit.files.files import open_regular
from fairbandit.metrics.reduction import RunningReduction
from fairbandit.runs import curves
from fairbandit.runs.curves import Curve
from fairbandit.runs.folder import CURVES, REWARDS, ROUNDS
from fairbandit.runs.moments import Floats
from fairbandit.runs.round_log import REWARDS_SCHEMA, schema

if TYPE_CHECKING:
    import pandas as pd

_SCHEMAS = {CURVES: curves.SCHEMA, REWARDS: REWARDS_SCHEMA}


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
        for key in filter(ranges.get, table.column_names):
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


def read_curves(folder: Path, summary: Mapping[str, Any]) -> dict[str, Curve]:
    """Reads the curves of a finished run, by the column of their metric or `selection_rate/GROUP`.

    Raises:
        FairbanditError: the file is missing or has changed, or holds other curves.
    """
    loaded = curves.from_table(read(folder, CURVES, summary))
    expected = curves.sampled(summary["rounds"], summary["metrics"], tuple(summary["groups"]))
    if loaded.keys() != expected.keys() or not all(
        np.array_equal(curve.rounds, expected[name])
        and np.shape(curve.final) == (summary["replicas"],)
        and ((curve.count >= 0) & (curve.count <= summary["replicas"])).all()
        for name, curve in loaded.items()
    ):
        raise FairbanditError(f"{folder / CURVES} does not hold the curves of its run")
    return loaded


def read_rewards(folder: Path, summary: Mapping[str, Any]) -> tuple[pd.DataFrame | None, ...]:
    """Reads the columns value, density and cdf of each group's true rewards; None if not known."""
    codes = range(len(summary["groups"]))
    if not (folder / REWARDS).exists():
        return (None,) * len(codes)
    known = dict(iter(read(folder, REWARDS, summary).to_pandas().groupby("group")))
    return tuple(known.get(code) for code in codes)


def read_picks(folder: Path, summary: Mapping[str, Any], by: str = "round") -> NDArray[np.int64]:
    """Returns the numbers of picks of each group in each `round`, (T, G), or `replica`, (B, G)."""
    tables = logs(folder, summary, [by, "group"])  # before an array of all rounds is made
    counts = np.zeros((summary[f"{by}s"], len(summary["groups"]) + 1), np.int64)
    for table in tables:
        rows, groups = (column.to_numpy() for column in table.columns)
        rows = rows - 1 if by == "round" else rows
        np.add.at(counts, (rows, groups), 1)  # the last column is for no pick, −1
    if counts.sum(1).min() < summary["replicas" if by == "round" else "rounds"]:
        raise FairbanditError(f"{folder}: the round log lacks picks of some rounds")
    return counts[:, :-1]


def read_trajectories(
    folder: Path, summary: Mapping[str, Any], column: str, rounds: NDArray[np.int64]
) -> Floats:
    """Returns a metric over rounds 1 … t in each replica, for some rounds t, (B, R)."""
    values = torch.full((summary["replicas"], summary["rounds"]), torch.nan, dtype=torch.float64)
    slots = ["slot"] if summary["config"]["picks"] > 1 else []
    for table in logs(folder, summary, ["replica", "round", column, *slots]):
        replica, t, value, *slot = (torch.from_numpy(c.to_numpy().copy()) for c in table.columns)
        first = slot[0] == 0 if slot else slice(None)  # only slot 0 has metrics
        values[replica[first], t[first] - 1] = value[first]
    running = RunningReduction(summary["metrics"][column]["reduce"], len(values)).add(values)
    return running[:, rounds - 1].numpy()

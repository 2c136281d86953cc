"""Finished runs: where they are, what they were asked for, and what they came to."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fairbandit.errors import FairbanditError
from fairbandit.files import natural_order, open_regular
from fairbandit.run import curves
from fairbandit.run import summary as summaries
from fairbandit.run.curves import Curve
from fairbandit.run.folder import CURVES, REWARDS, ROUNDS, SUMMARY, finished_below
from fairbandit.run.round_log import REWARDS_SCHEMA, schema
from fairbandit.run.settings import BY_GROUP, dotted

if TYPE_CHECKING:
    import pandas as pd

KEYS = summaries.KEYS
"""The settings that every table shows, whether or not the runs differ in them."""

FOLDER = "folder"
"""The column of tables that says where a run's files are."""

PLACES = ("environment.root", "environment.cache", "environment.download")
"""Settings that say where an environment's data lie."""

_SCHEMAS = {CURVES: curves.SCHEMA, REWARDS: REWARDS_SCHEMA}
_NAMES = {"policy.name", "environment.name"}  # these are the settings `policy` and `environment`


@dataclass(frozen=True)
class SavedRun:
    """A finished run; its other files are read when they are first needed, or refused if damaged.

    Attributes:
        folder: the run's folder.
        summary: the contents of its `summary.json`.
        place: the folder's name in tables: its path below the folder that was searched, preceded
            by that folder's own path where several were searched.
    """

    folder: Path
    summary: dict[str, Any]
    place: str = ""

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The resolved config and the versions by dotted keys, `KEYS` first; lists as JSON."""
        config = dotted(self.summary["config"])
        versions = dotted(self.summary["versions"], "versions.")
        return {key: self.summary[key] for key in KEYS} | {
            key: json.dumps(value) if isinstance(value, list) else value
            for key, value in [*config, *versions]
            if key not in {*KEYS, *_NAMES} and value != {}
        }

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the groups, in order of their codes."""
        return tuple(self.summary["groups"])

    @cached_property
    def spreads(self) -> dict[str, Mapping[str, Any]]:
        """`mean` and `std` of every metric, and of every group's quantities, by column."""
        found = dict(self.summary["metrics"])
        for quantity in BY_GROUP:
            found |= {f"{quantity}_{name}": one for name, one in self.summary[quantity].items()}
        return found

    @cached_property
    def curves(self) -> dict[str, Curve]:
        """Every metric by its column, and `selection_rate/GROUP` where groups are few."""
        found = curves.of_table(read(self.folder, CURVES, self.summary))
        rounds, replicas = self.summary["rounds"], self.summary["replicas"]
        right = curves.sampled(rounds, self.summary["metrics"], self.groups)
        if found.keys() != right.keys() or not all(
            np.array_equal(curve.rounds, right[name])
            and np.shape(curve.final) == (replicas,)
            and ((curve.count >= 0) & (curve.count <= replicas)).all()
            for name, curve in found.items()
        ):
            raise FairbanditError(f"{self.folder / CURVES} does not hold the curves of its run")
        return found

    @cached_property
    def rewards(self) -> tuple[pd.DataFrame | None, ...]:
        """The columns value, density and cdf of each group's true rewards; None if not known."""
        if not (self.folder / REWARDS).exists():
            return (None,) * len(self.groups)
        found = read(self.folder, REWARDS, self.summary).to_pandas().groupby("group")
        known = dict(iter(found))
        return tuple(known.get(code) for code in range(len(self.groups)))

    def picks(self) -> NDArray[np.int64]:
        """Counts in how many replicas each group was picked in each round, (T, G)."""
        tables = logs(self.folder, self.summary, ["round", "group"])
        counts = np.zeros((self.summary["rounds"], len(self.groups)), np.int64)
        for table in tables:
            rounds, groups = (column.to_numpy() for column in table.columns)
            np.add.at(counts, (rounds - 1, groups), 1)
        if counts.sum(1).min() < self.summary["replicas"]:
            raise FairbanditError(f"{self.folder}: the round log lacks picks of some rounds")
        return counts


def read(
    folder: Path, name: str, summary: Mapping[str, Any], columns: Sequence[str] | None = None
) -> pa.Table:
    """Reads a Parquet file of a finished run, if it is byte for byte what the run wrote.

    Args:
        folder: the run's folder.
        name: the path of the file in this folder.
        summary: the run's summary, which has the file's hash.
        columns: the columns to read; None for all.

    Raises:
        FairbanditError: the file or a column is not there, or the file is not as the run left it.
    """
    with _opened(folder / name) as file:
        data = file.read()
        if hashlib.sha256(data).hexdigest() != summary["files"].get(name):
            raise ValueError("its contents are not those that its run wrote")
        with pq.ParquetFile(pa.BufferReader(data)) as parquet:
            found = parquet.schema_arrow
            missing = sorted(set(columns or ()) - set(found.names))
            if missing:
                raise ValueError(f"it has no column {', '.join(map(repr, missing))}")
            log = schema(summary["metrics"], summary["config"]["picks"])
            if not found.equals(_SCHEMAS.get(name, log)):
                raise ValueError("its columns are not those of a run")
            table = parquet.read(columns)
        floats = [one.to_numpy() for one in table.columns if pa.types.is_floating(one.type)]
        if any(np.fmax.reduce(np.abs(one), initial=0.0) > 1e100 for one in floats):
            raise ValueError("it holds numbers above 1e100, which overflow in figures")
        ends = {"replica": summary["replicas"] - 1, "group": len(summary["groups"]) - 1}
        for key, last in ({"round": summary["rounds"], **ends}).items():
            numbers = table[key].to_numpy() if key in table.column_names else np.array([last])
            if not (numbers.min() >= (key == "round") and numbers.max() <= last):  # or NaN
                raise ValueError(f"a number of a {key} is not one of its run")
    return table


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    with open_regular(path) as file:
        try:
            yield file
        except (OSError, ValueError, pa.ArrowException) as error:
            raise FairbanditError(
                f"{path} cannot be read: {error}. Put it back as it was, or remove the run's "
                "folder and play it again"
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
        raise FairbanditError(f"{folder}: {rows:,} rows are not those of all rounds and replicas")
    return (read(folder, name, summary, columns) for name in names)


def read_runs(folders: Sequence[Path]) -> list[SavedRun]:
    """Reads every finished run below some folders, once, in the order of the places.

    Numbers in the names of places count by value.

    Raises:
        FairbanditError: a folder does not exist, a file is no summary, or there is no run.
    """
    found: dict[str, tuple[str, str]] = {}
    for folder in folders:
        if not folder.is_dir():
            raise FairbanditError(f"{folder} is not a folder")
        for path in finished_below(folder):
            place = os.path.relpath(path, folder)
            shown = str(folder / place) if len(folders) > 1 else place
            found.setdefault(os.path.realpath(path), (shown, path))
    if not found:
        raise FairbanditError(
            f"no finished run below {', '.join(map(str, folders))}: a run leaves a {SUMMARY}"
        )
    ordered = sorted(found.values(), key=lambda pair: natural_order(pair[0], True))
    runs = [SavedRun(Path(path), summaries.read(path), place) for place, path in ordered]
    for run in runs:
        run.summary.pop("identity")  # repeats the config, and compares no runs
    return runs

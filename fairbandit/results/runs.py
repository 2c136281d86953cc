"""Reads finished runs: their folders, settings and results."""

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
"""The column of tables with the folder of a run."""

PLACES = ("environment.root", "environment.cache", "environment.download")
"""The settings that locate the data of an environment."""

_SCHEMAS = {CURVES: curves.SCHEMA, REWARDS: REWARDS_SCHEMA}
_NAMES = {"policy.name", "environment.name"}  # these are the settings `policy` and `environment`


@dataclass(frozen=True)
class SavedRun:
    """A finished run; its other files are read and verified when they are first needed.

    Attributes:
        folder: the run's folder.
        summary: the contents of its `summary.json`.
        place: the folder's name in tables: its path relative to the searched folder, or including
            the searched folder if there are several.
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
        """`mean` and `std` of every metric, and of every group's statistics, by column."""
        spreads = dict(self.summary["metrics"])
        for statistic in BY_GROUP:
            by_group = self.summary[statistic].items()
            spreads |= {f"{statistic}_{group}": spread for group, spread in by_group}
        return spreads

    @cached_property
    def curves(self) -> dict[str, Curve]:
        """The curve of every metric by its column, and `selection_rate/GROUP` for few groups."""
        loaded = curves.from_table(read(self.folder, CURVES, self.summary))
        rounds, replicas = self.summary["rounds"], self.summary["replicas"]
        expected = curves.sampled(rounds, self.summary["metrics"], self.groups)
        if loaded.keys() != expected.keys() or not all(
            np.array_equal(curve.rounds, expected[name])
            and np.shape(curve.final) == (replicas,)
            and ((curve.count >= 0) & (curve.count <= replicas)).all()
            for name, curve in loaded.items()
        ):
            raise FairbanditError(f"{self.folder / CURVES} does not hold the curves of its run")
        return loaded

    @cached_property
    def rewards(self) -> tuple[pd.DataFrame | None, ...]:
        """The columns value, density and cdf of each group's true rewards; None if not known."""
        if not (self.folder / REWARDS).exists():
            return (None,) * len(self.groups)
        known = dict(iter(read(self.folder, REWARDS, self.summary).to_pandas().groupby("group")))
        return tuple(known.get(code) for code in range(len(self.groups)))

    def picks(self) -> NDArray[np.int64]:
        """Returns the number of replicas that picked each group in each round, (T, G)."""
        tables = logs(self.folder, self.summary, ["round", "group"])
        counts = np.zeros((self.summary["rounds"], len(self.groups) + 1), np.int64)
        for table in tables:
            rounds, groups = (column.to_numpy() for column in table.columns)
            np.add.at(counts, (rounds - 1, groups), 1)  # the last column is for no pick, −1
        if counts.sum(1).min() < self.summary["replicas"]:
            raise FairbanditError(f"{self.folder}: the round log lacks picks of some rounds")
        return counts[:, :-1]


def read(
    folder: Path, name: str, summary: Mapping[str, Any], columns: Sequence[str] | None = None
) -> pa.Table:
    """Reads a Parquet file of a finished run, and verifies its hash.

    Args:
        folder: the run's folder.
        name: the path of the file in this folder.
        summary: the run's summary, which has the file's hash.
        columns: the columns to read; None reads all.

    Raises:
        FairbanditError: the file or a column is missing, or the file has changed.
    """
    with _opened(folder / name) as file:
        data = file.read()
        if hashlib.sha256(data).hexdigest() != summary["files"].get(name):
            raise ValueError("its contents have changed since its run wrote it")
        with pq.ParquetFile(pa.BufferReader(data)) as parquet:
            present = parquet.schema_arrow
            missing = sorted(set(columns or ()) - set(present.names))
            if missing:
                raise ValueError(f"it lacks the column {', '.join(map(repr, missing))}")
            log = schema(summary["metrics"], summary["config"]["picks"])
            if not present.equals(_SCHEMAS.get(name, log)):
                raise ValueError("its columns differ from the columns of a run")
            table = parquet.read(columns)
        floats = [c.to_numpy() for c in table.columns if pa.types.is_floating(c.type)]
        if any(np.fmax.reduce(np.abs(values), initial=0.0) > 1e100 for values in floats):
            raise ValueError("it holds numbers above 1e100, which overflow in figures")
        ends = {"replica": summary["replicas"] - 1, "group": len(summary["groups"]) - 1}
        least = {"round": 1, "group": -1}  # group −1: a round without a pick
        for key, last in ({"round": summary["rounds"], **ends}).items():
            numbers = table[key].to_numpy() if key in table.column_names else np.array([last])
            if not (numbers.min() >= least.get(key, 0) and numbers.max() <= last):  # or NaN
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


def read_runs(folders: Sequence[Path]) -> list[SavedRun]:
    """Reads every finished run below some folders once, sorted by path.

    Numbers in paths are sorted by value.

    Raises:
        FairbanditError: a folder does not exist, a summary is not valid, or no run was found.
    """
    places: dict[str, tuple[str, str]] = {}
    for folder in folders:
        if not folder.is_dir():
            raise FairbanditError(f"{folder} is not a folder")
        for path in finished_below(folder):
            place = os.path.relpath(path, folder)
            shown = str(folder / place) if len(folders) > 1 else place
            places.setdefault(os.path.realpath(path), (shown, path))
    if not places:
        raise FairbanditError(
            f"no finished run below {', '.join(map(str, folders))}: a run leaves a {SUMMARY}"
        )
    ordered = sorted(places.values(), key=lambda pair: natural_order(pair[0], True))
    runs = [SavedRun(Path(path), summaries.read(path), place) for place, path in ordered]
    for run in runs:
        run.summary.pop("identity")  # repeats the config; comparisons do not use it
    return runs

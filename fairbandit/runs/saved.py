"""Finished runs, read from their folders, and callbacks, which take part in a run."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from fairbandit.errors import FairbanditError
from fairbandit.files.files import natural_order, open_regular
from fairbandit.runs import summary as summaries
from fairbandit.runs.folder import CURVES, FINALS, REWARDS, SUMMARY, finished_below
from fairbandit.runs.record import CURVES_SCHEMA, REWARDS_SCHEMA, SCHEMA
from fairbandit.runs.settings import LACKING, dotted

if TYPE_CHECKING:
    import pandas as pd

_NAMES = {"policy.name", "environment.name"}  # these are the settings `policy` and `environment`
_SCHEMAS = {FINALS: SCHEMA, CURVES: CURVES_SCHEMA, REWARDS: REWARDS_SCHEMA}


@dataclass(eq=False)
class Run:
    """A finished run; its files are read and verified when they are first needed.

    Attributes:
        folder: the run's folder; None if nothing was kept in files.
        summary: the contents of its `summary.json`.
        place: the folder's path in tables, relative to the searched folder if there is only one.
    """

    folder: Path | None
    summary: dict[str, Any]
    place: str = ""

    def __repr__(self) -> str:
        rounds, replicas = self.summary["rounds"], self.summary["replicas"]
        names = f"{self.summary['policy']} in {self.summary['environment']}"
        return f"<Run of {names}, {rounds:,} rounds × {replicas:,} replicas, in {self.folder}>"

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The resolved config by dotted keys, `summary.KEYS` first; lists are JSON.

        It has the hashes of `data` and of `plugins`, the `unit` of a table's reward, and versions.
        """
        identity = self.summary.get("identity", {})
        hashes = {key: identity[key][:12] for key in ("data", "plugins") if identity.get(key)}
        unit = {"unit": json.dumps(self.summary["unit"])} if self.summary.get("unit") else {}
        config = dotted(self.summary["config"])
        versions = dotted(self.summary["versions"], "versions.")
        return {key: self.summary[key] for key in summaries.KEYS} | {
            key: json.dumps(value) if isinstance(value, list) else value
            for key, value in [*config, *hashes.items(), *unit.items(), *versions]
            if key not in {*summaries.KEYS, *_NAMES} and value != {}
        }

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the groups, in order of their codes."""
        return tuple(self.summary["groups"])

    @cached_property
    def finals(self) -> pd.DataFrame:
        """Each measure at the end of the run: `replica`, `measure`, `group`, `value`.

        The group of a measure of the whole run is `LACKING`; see `fairbandit.runs.record`.
        """
        return self._read(FINALS).to_pandas().fillna({"group": LACKING})

    @cached_property
    def curves(self) -> pd.DataFrame:
        """Each metric over rounds 1 … t: `replica`, `measure`, `group`, `round`, `value`."""
        return self._read(CURVES).to_pandas(categories=["measure"]).fillna({"group": LACKING})

    @cached_property
    def rewards(self) -> tuple[pd.DataFrame | None, ...]:
        """The columns value, density and cdf of each group's true rewards; None if not known."""
        stored = REWARDS in self.summary["files"]
        tables: Any = dict(iter(self._read(REWARDS).to_pandas().groupby("group"))) if stored else {}
        return tuple(tables.get(code) for code in range(len(self.groups)))

    def kept(self) -> Run:
        """Returns the run without its folder, with what its files hold except single rounds."""
        run = Run(None, self.summary)
        for name in ("finals", "curves", "rewards"):
            run.__dict__[name] = getattr(self, name)
        return run

    def _read(self, name: str) -> pa.Table:
        assert self.folder is not None, "a run without a folder keeps its results"
        path = self.folder / name
        with open_regular(path) as file:
            try:
                data = file.read()
                if hashlib.sha256(data).hexdigest() != self.summary["files"].get(name):
                    raise ValueError("its contents have changed since its run wrote it")
                # without read-ahead, whose threads could outlive the process
                with pq.ParquetFile(pa.BufferReader(data), pre_buffer=False) as parquet:
                    if not parquet.schema_arrow.equals(_SCHEMAS[name]):
                        raise ValueError("its columns differ from the columns of a run")
                    return parquet.read(use_threads=False)
            except (OSError, ValueError, pa.ArrowException) as error:
                raise FairbanditError(
                    f"{path} cannot be read: {error}. Restore the file, or remove the run's folder "
                    "and play the run again"
                ) from error


class Callback:
    """Takes part in a run; a class of your own overrides any of the methods.

    An exception that a method raises ends the run, which the same command continues.
    """

    def on_start(self, settings: Mapping[str, Any]) -> None:
        """Called when a run begins or continues, with its config by dotted keys."""

    def on_rounds(self, t: int, means: Mapping[str, float]) -> None:
        """Called during the first batch of replicas, with the mean of each metric after round t."""

    def on_end(self, run: Run) -> None:
        """Called when the files of the run are written."""


def read_runs(folders: Sequence[Path]) -> list[Run]:
    """Reads every finished run below some folders once, sorted by path, numbers by their values.

    Raises:
        FairbanditError: a folder does not exist, a summary is not valid, or no run was found.
    """
    places: dict[str, tuple[str, str]] = {}
    for folder in folders:
        if not folder.is_dir():
            raise FairbanditError(f"{folder} is not a folder")
        for path in finished_below(folder):
            place = os.path.relpath(path, folder)
            place = str(folder / place) if len(folders) > 1 else place
            places.setdefault(os.path.realpath(path), (place, path))
    if not places:
        raise FairbanditError(
            f"no finished run below {', '.join(map(str, folders))}: a run leaves a {SUMMARY}"
        )
    ordered = sorted(places.values(), key=lambda pair: natural_order(pair[0], True))
    return [Run(Path(path), summaries.read(path), place) for place, path in ordered]

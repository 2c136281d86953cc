"""Reads finished runs: their folders, settings and results."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairbandit.errors import FairbanditError
from fairbandit.files.files import natural_order
from fairbandit.notices import listed, remark
from fairbandit.runs import summary as summaries
from fairbandit.runs.folder import CURVES, FINALS, SUMMARY, finished_below
from fairbandit.runs.reading import read_picks, read_rewards, read_tidy
from fairbandit.runs.record import Curve, Key
from fairbandit.runs.settings import dotted

if TYPE_CHECKING:
    import pandas as pd

KEYS = summaries.KEYS
"""The settings that every table shows, whether or not the runs differ in them."""

FOLDER = "folder"
"""The column of tables with the folder of a run."""

_NAMES = {"policy.name", "environment.name"}  # these are the settings `policy` and `environment`


@dataclass(eq=False)
class Run:
    """A finished run; its files are read and verified when they are first needed.

    Attributes:
        folder: the run's folder; None if nothing was kept in files.
        summary: the contents of its `summary.json`.
        place: the folder's name in tables: its path relative to the searched folder, or including
            the searched folder if there are several.
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
        """The resolved config by dotted keys, `KEYS` first, and what else makes a setting.

        These are the first digits of the hashes of `data` and of `plugins`, the `unit` of a table's
        reward, and the versions. Lists and units are JSON.
        """
        known = self.summary.get("identity", {})
        hashes = {key: known[key][:12] for key in ("data", "plugins") if known.get(key)}
        unit = {"unit": json.dumps(self.summary["unit"])} if self.summary.get("unit") else {}
        config = dotted(self.summary["config"])
        versions = dotted(self.summary["versions"], "versions.")
        return {key: self.summary[key] for key in KEYS} | {
            key: json.dumps(value) if isinstance(value, list) else value
            for key, value in [*config, *hashes.items(), *unit.items(), *versions]
            if key not in {*KEYS, *_NAMES} and value != {}
        }

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the groups, in order of their codes."""
        return tuple(self.summary["groups"])

    @cached_property
    def finals(self) -> pd.DataFrame:
        """Each measure at the end of the run: `replica`, `measure`, `group`, `value`.

        A measure of the whole run has no group; see `fairbandit.runs.record`.
        """
        return read_tidy(self._place, FINALS, self.summary)[0].to_pandas()

    @cached_property
    def curves(self) -> pd.DataFrame:
        """Each metric over rounds 1 … t: `replica`, `measure`, `group`, `round`, `value`."""
        table, _ = read_tidy(self._place, CURVES, self.summary)
        return table.to_pandas(categories=["measure", "group"])

    @cached_property
    def curve_of(self) -> Mapping[Key, Curve]:
        """The curves as arrays, by measure and group."""
        table, steps = read_tidy(self._place, CURVES, self.summary)
        sizes = [self.summary["replicas"] * len(at) for at in steps.values()]
        parts = np.split(table["value"].to_numpy(), np.cumsum(sizes)[:-1])
        return {
            key: Curve(at, values.reshape(-1, len(at)))
            for (key, at), values in zip(steps.items(), parts, strict=True)
        }

    @cached_property
    def rewards(self) -> tuple[pd.DataFrame | None, ...]:
        """The columns value, density and cdf of each group's true rewards; None if not known."""
        return read_rewards(self._place, self.summary)

    def kept(self) -> Run:
        """Returns the run without its folder, with what its files hold except single rounds."""
        run = Run(None, self.summary)
        for name in ("finals", "curves", "curve_of", "rewards"):
            run.__dict__[name] = getattr(self, name)
        return run

    def picks(self, first: int = 0) -> NDArray[np.int64]:
        """Returns the number of replicas, from `first` on, that picked each group by round."""
        return read_picks(self._place, self.summary, first)

    @property
    def _place(self) -> Path:
        if self.folder is None:
            raise FairbanditError("this run was played without a folder, so it has no such file")
        return self.folder


def read_runs(folders: Sequence[Path]) -> list[Run]:
    """Reads every finished run below some folders once, sorted by path.

    Numbers in paths are sorted by value. Of runs with the same config and results, such as copies,
    the first is read, and a notice names the others.

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
    runs, repeated = dict[str, Run](), list[str]()
    for place, path in ordered:
        run = Run(Path(path), summaries.read(path), place)
        first = runs.setdefault(run.summary["checksum"], run)
        if first is not run:
            repeated.append(f"{place} repeats {first.place}")
    if repeated:
        remark(f"the same run in several folders is read once: {listed(repeated, 3)}")
    return list(runs.values())

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
from fairbandit.runs import by_group
from fairbandit.runs import summary as summaries
from fairbandit.runs.curves import Curve
from fairbandit.runs.folder import SUMMARY, finished_below
from fairbandit.runs.moments import Floats
from fairbandit.runs.reading import read_curves, read_picks, read_rewards
from fairbandit.runs.settings import BY_GROUP, COST, dotted
from fairbandit.runs.sheets import run_table

if TYPE_CHECKING:
    import pandas as pd

KEYS = summaries.KEYS
"""The settings that every table shows, whether or not the runs differ in them."""

FOLDER = "folder"
"""The column of tables with the folder of a run."""

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

    def __repr__(self) -> str:
        """Ten lines: the policy, the environment, the metrics and the first groups' rates."""
        rows = [*run_table(self.summary).rows[:9], ("folder", str(self.folder))]
        return "\n".join(f"{name:<26}  {value}" for name, value in rows)

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
        """`mean`, `std` and `n` of every metric and of every group's statistics, by column."""
        spreads = dict(self.summary["metrics"])
        for statistic in BY_GROUP:
            by_group = self.summary[statistic].items()
            spreads |= {f"{statistic}_{group}": spread for group, spread in by_group}
        if cost := summaries.cost_per_pick(self.summary):
            spreads[COST] = cost
        count = {True: self.summary["replicas"], False: 0}  # unless only some values are known
        return {name: {"n": count[s["mean"] is not None], **s} for name, s in spreads.items()}

    @cached_property
    def picks(self) -> NDArray[np.int64]:
        """The number of picks of each group in each replica, (B, G)."""
        return read_picks(self.folder, self.summary, "replica")

    @cached_property
    def of_groups(self) -> dict[str, Floats]:
        """Each measure of each group's picks in each replica, by column; see `by_group`."""
        return by_group.of_groups(self.folder, self.summary)

    @property
    def cost(self) -> float | None:
        """The factor from the standard regret to `cost_per_pick`; None without a unit."""
        return summaries.cost_factor(self.summary)

    @cached_property
    def curves(self) -> dict[str, Curve]:
        """The curve of every metric by its column, and `selection_rate/GROUP` for few groups."""
        return read_curves(self.folder, self.summary)

    @cached_property
    def rewards(self) -> tuple[pd.DataFrame | None, ...]:
        """The columns value, density and cdf of each group's true rewards; None if not known."""
        return read_rewards(self.folder, self.summary)


def read_runs(folders: Sequence[Path]) -> list[SavedRun]:
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
    runs, repeated = dict[str, SavedRun](), list[str]()
    for place, path in ordered:
        run = SavedRun(Path(path), summaries.read(path), place)
        run.summary.pop("identity")  # repeats the config; comparisons do not use it
        first = runs.setdefault(run.summary["checksum"], run)
        if first is not run:
            repeated.append(f"{place} repeats {first.place}")
    if repeated:
        remark(f"the same run in several folders is read once: {listed(repeated, 3)}")
    return list(runs.values())

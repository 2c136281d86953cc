"""Finished runs: where they are, what they were asked for, and what they came to."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.maths.moments import Moments
from fairbandit.metrics import REGRETS, RunningReduction
from fairbandit.results.files import opened, row_groups
from fairbandit.run import summary as summaries
from fairbandit.run.folder import REWARDS, ROUNDS, SUMMARY, finished_below
from fairbandit.run.settings import BY_GROUP, dotted

KEYS = summaries.KEYS
"""The settings that every table shows, whether or not the runs differ in them."""

CURVE_POINTS = 300
"""The largest number of points of a curve."""

Floats = NDArray[np.float64]

FOLDER = "folder"
"""The column of tables that says where a run's files are."""

PLACES = ("environment.root", "environment.cache", "environment.download")
"""Settings that say where an environment's data lie."""

_NAMES = {"policy.name", "environment.name"}  # these are the settings `policy` and `environment`


@dataclass(frozen=True)
class Curve:
    """A metric, reduced over rounds 1 … t, for some rounds t.

    Attributes:
        rounds: the rounds t, ascending, with 1 and T.
        count: how many replicas the metric is known of.
        mean: the mean over replicas; NaN where the metric is not known.
        std: the standard deviation over replicas (ddof 1); NaN with one replica.
    """

    rounds: NDArray[np.int64]
    count: Floats
    mean: Floats
    std: Floats


@dataclass(frozen=True)
class RewardDistribution:
    """The distribution of a group's true rewards on a grid.

    Attributes:
        values: rewards in ascending order, (n,).
        density: the density at these rewards, (n,).
        cdf: the CDF at these rewards, (n,).
    """

    values: Floats
    density: Floats
    cdf: Floats


@dataclass(frozen=True)
class SavedRun:
    """A finished run; its round log is read when it is first needed.

    Attributes:
        folder: the run's folder.
        summary: the contents of its `summary.json`.
        place: the folder's name in tables: its path below the folder that was searched, preceded
            by that folder's own path where several were searched.
    """

    folder: Path
    summary: Mapping[str, Any]
    place: str = ""

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The resolved config and the versions by dotted keys, `KEYS` first; lists as JSON."""
        config = dotted(self.summary["config"])
        versions = dotted(self.summary.get("versions", {}), "versions.")
        return {key: self.summary[key] for key in KEYS} | {
            key: json.dumps(value) if isinstance(value, list) else value
            for key, value in [*config, *versions]
            if key not in {*KEYS, *_NAMES} and value != {}
        }

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the groups, in order of their codes."""
        return tuple(self.summary["groups"])

    @property
    def knows_truth(self) -> bool:
        """Whether a part of the policy reads what only the environment knows."""
        return bool(self.summary.get("knows_truth", False))

    @property
    def metrics(self) -> dict[str, Mapping[str, Any]]:
        """Every metric by its column in the round log, with `mean`, `std` and `reduce`."""
        regrets = {
            column: {**self.summary[key], "reduce": "sum", "lower_is_better": True}
            for column, key in REGRETS.items()
        }
        return {**regrets, **self.summary.get("metrics", {})}

    @cached_property
    def curves(self) -> dict[str, Curve]:
        """Every metric at evenly spaced rounds, by its column in the round log.

        Raises:
            FairbanditError: a file is damaged, or rounds are missing.
        """
        rounds, metrics = self.summary["rounds"], self.metrics
        spaced = np.linspace(1, rounds, min(CURVE_POINTS, rounds)).round()
        steps = np.unique(spaced.astype(np.int64))
        moments = {column: Moments(len(steps)) for column in metrics}
        running: dict[str, RunningReduction] = {}
        for first, columns in row_groups(self.folder, self.summary, list(metrics)):
            for column, values in columns.items():
                replicas, count = values.shape
                if first == 1:  # of a batch of replicas
                    running[column] = RunningReduction(metrics[column]["reduce"], replicas)
                low, high = np.searchsorted(steps, [first, first + count])
                reduced = running[column].add(values)[:, torch.from_numpy(steps[low:high] - first)]
                moments[column].add(reduced, slice(int(low), int(high)))
        return {
            column: Curve(steps, *(part.numpy() for part in (found.count, found.mean, found.std)))
            for column, found in moments.items()
        }

    def final(self, column: str) -> dict[int, float]:
        """Returns the value of a metric after the last round, by the number of the replica.

        Raises:
            FairbanditError: a file is damaged, rounds are missing, or there is no such column.
        """
        values: dict[int, float] = {}
        found: RunningReduction | None = None
        for first, columns in row_groups(self.folder, self.summary, ["replica", column]):
            numbers = columns["replica"][:, 0]
            if found is None or first == 1:  # of a batch of replicas
                found = RunningReduction(self.metrics[column]["reduce"], len(numbers))
            reduced = found.add(columns[column])[:, -1]
            values.update(zip(numbers.tolist(), reduced.tolist(), strict=True))
        return values

    @cached_property
    def rewards(self) -> tuple[RewardDistribution | None, ...]:
        """The distribution of each group's true rewards; None where it is not known."""
        if not (self.folder / REWARDS).exists():
            return (None,) * len(self.groups)
        with opened(self.folder, REWARDS, self.summary) as file:
            table = file.read()
        codes, *columns = (
            table.column(name).to_numpy() for name in ("group", "value", "density", "cdf")
        )
        return tuple(
            RewardDistribution(*(column[codes == code] for column in columns))
            if code in codes
            else None
            for code in range(len(self.groups))
        )

    @cached_property
    def results(self) -> dict[str, Any]:
        """Every result by its column in tables, such as fair_pseudo_regret_mean, and `folder`."""
        summary = self.summary
        spreads = {k: summary[k] for k in sorted(REGRETS.values())} | summary.get("metrics", {})
        for key in BY_GROUP:
            spreads |= {f"{key}_{group}": spread for group, spread in summary[key].items()}
        parts = ("mean", "std")
        found = {f"{name}_{part}": one[part] for name, one in spreads.items() for part in parts}
        return found | {key: summary[key] for key in summaries.TIMINGS} | {FOLDER: self.place}

    def picks(self) -> Tensor:
        """Counts in how many replicas each group was picked in each round, (T, G) int64.

        Raises:
            FairbanditError: a file is damaged, rounds are missing, or a group is not known.
        """
        groups = len(self.groups)
        counts = torch.zeros(self.summary["rounds"], groups, dtype=torch.int64)
        for first, columns in row_groups(self.folder, self.summary, ["group"]):
            picked = columns["group"]
            if int(picked.min()) < 0 or int(picked.max()) >= groups:
                raise FairbanditError(
                    f"{self.folder / ROUNDS} holds groups that {SUMMARY} does not speak of"
                )
            at = slice(first - 1, first - 1 + picked.shape[1])
            counts[at] += torch.nn.functional.one_hot(picked, groups).sum(0)
        return counts


def read_runs(folders: Sequence[Path]) -> list[SavedRun]:
    """Reads the summary of every finished run below some folders.

    Args:
        folders: where to look, at any depth.

    Returns:
        The runs in natural order of their places, each once.

    Raises:
        FairbanditError: a folder does not exist, a file is no summary, or there is no run.
    """
    found: dict[str, tuple[str, str]] = {}
    for folder in folders:
        if not folder.is_dir():
            raise FairbanditError(f"{folder} is not a folder")
        for path in finished_below(folder, _refuse):
            place = os.path.relpath(path, folder)
            shown = str(folder / place) if len(folders) > 1 else place
            found.setdefault(os.path.realpath(path), (shown, path))
    if not found:
        raise FairbanditError(
            f"no finished run below {', '.join(map(str, folders))}: a run leaves a {SUMMARY}"
        )
    ordered = sorted(found.values(), key=lambda pair: natural_order(pair[0]))
    return [SavedRun(Path(path), _summary(path), place) for place, path in ordered]


def _refuse(error: OSError) -> None:
    raise FairbanditError(f"cannot read {error.filename}: {error.strerror}") from error


def _summary(path: str) -> dict[str, Any]:
    """Reads a summary without its identity, which repeats the config and compares no runs."""
    summary = summaries.read(path)
    summary.pop("identity", None)
    return summary


def natural_order(text: str) -> list[tuple[bool, float, str]]:
    """Returns a sort key by which numbers are ordered by their values.

    >>> sorted(["seed-10", "seed-2", "noise-0.5", "noise-0.25"], key=natural_order)
    ['noise-0.25', 'noise-0.5', 'seed-2', 'seed-10']
    """
    pieces = re.findall(r"([0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?)|([^0-9]+)", text)
    return [(bool(letters), float(digits or 0), letters) for digits, letters in pieces]

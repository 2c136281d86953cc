"""What figures show: saved runs, in one scene for each environment."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbandit.errors import FairbanditError
from fairbandit.figures.curves import Curve, read_curves
from fairbandit.figures.style import policy_order
from fairbandit.run import gather
from fairbandit.run import summary as summaries
from fairbandit.run.folder import REWARDS
from fairbandit.run.stored import opened

Floats = NDArray[np.float64]

_PLACES = ("environment.root", "environment.cache", "environment.download")
_NO_DIFFERENCE = ("threads", "device", "versions.", *_PLACES)


@dataclass(frozen=True)
class Rewards:
    """The true reward distribution of a group, on a grid."""

    values: Floats
    density: Floats
    cdf: Floats


@dataclass(frozen=True)
class Run:
    """A saved run: a line or a point of a figure.

    Attributes:
        label: what it is called; a policy's name, with what else sets it apart.
        folder: where it is.
        summary: its `summary.json`.
    """

    label: str
    folder: Path
    summary: Mapping[str, Any]

    @cached_property
    def curves(self) -> dict[str, Curve]:
        """Both pseudo-regrets over the rounds, `fair` and `standard`."""
        return read_curves(self.folder, self.summary)

    def by_group(self, quantity: str) -> tuple[Floats, Floats]:
        """Mean and std of `selection_rate`, `selected` or `received`, (G,) each.

        NaN stands where there is none: a group never received, or one replica.
        """
        spreads = [self.summary[quantity][group] for group in self.summary["groups"]]
        mean, std = (
            np.array([spread[part] for spread in spreads], dtype=np.float64)  # None becomes NaN
            for part in ("mean", "std")
        )
        return mean, std


@dataclass(frozen=True)
class Scene:
    """The runs in one environment, in the order in which figures list them.

    Attributes:
        name: the environment's, with what sets it apart from the others of that name.
        runs: the runs.
    """

    name: str
    runs: tuple[Run, ...]

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups' names, in order of their codes."""
        return tuple(self.runs[0].summary["groups"])

    @property
    def candidates(self) -> float:
        """K: the candidates received a round, empty places not counted."""
        first = self.runs[0]
        return float(np.nansum(first.by_group("received")[0]) / first.summary["rounds"])

    @cached_property
    def rewards(self) -> tuple[Rewards | None, ...]:
        """The groups' reward distributions; None of those not known."""
        run = next((run for run in self.runs if (run.folder / REWARDS).exists()), None)
        if run is None:
            return (None,) * len(self.groups)
        with opened(run.folder, REWARDS, run.summary) as file:
            table = file.read()
        columns = [table.column(name).to_numpy() for name in ("value", "density", "cdf")]
        codes = table.column("group").to_numpy()
        found = [codes == code for code in range(len(self.groups))]
        return tuple(Rewards(*(c[rows] for c in columns)) if rows.any() else None for rows in found)

    def only(self, policies: Sequence[str] | None) -> Scene:
        """The same scene with the runs of some policies.

        Raises:
            FairbanditError: there is no run of any of them.
        """
        if policies is None:
            return self
        kept = tuple(run for run in self.runs if run.summary["policy"] in policies)
        if not kept:
            have = sorted({run.summary["policy"] for run in self.runs})
            raise FairbanditError(
                f"no run in {self.name} is of {' or '.join(map(repr, policies))}; there are runs "
                f"of {', '.join(map(repr, have))}"
            )
        return Scene(self.name, kept)


def read_scenes(folders: Sequence[Path]) -> list[Scene]:
    """Reads the runs below some folders, a scene for each environment they were played in.

    Args:
        folders: where runs are, at any depth.

    Raises:
        FairbanditError: a folder that is not there, no run at all, or a file that is damaged.
    """
    configs, results = gather.gather(folders)
    found: dict[str, list[tuple[gather.Row, Path]]] = {}
    for config, result in zip(configs, results, strict=True):
        place = Path(result[gather.FOLDER])
        folder = folders[0] / place if len(folders) == 1 else place
        found.setdefault(_world(config), []).append((config, folder))
    worlds = [runs[0][0] for runs in found.values()]
    names = [_name(str(world["environment"]), world, worlds, "environment.") for world in worlds]
    return [
        Scene(name, _labelled(runs))
        for name, runs in sorted(zip(names, found.values(), strict=True), key=lambda pair: pair[0])
    ]


def _world(config: gather.Row) -> str:
    """What tells environments apart, wherever their data lies."""
    keys = {k: v for k, v in config.items() if k.startswith("environment") and k not in _PLACES}
    return json.dumps(keys, sort_keys=True)


def _labelled(runs: Sequence[tuple[gather.Row, Path]]) -> tuple[Run, ...]:
    configs = [config for config, _ in runs]
    made: dict[str, Run] = {}
    for config, folder in runs:
        same = [other for other in configs if other["policy"] == config["policy"]]
        label = _name(str(config["policy"]), config, same, "")
        if label in made:  # the same command, twice
            label = f"{label}, {folder}"
        made[label] = Run(label, folder, summaries.read(folder))
    order = sorted(made.values(), key=lambda run: policy_order(run.summary["policy"]))
    return tuple(order)


def _name(name: str, own: gather.Row, others: Sequence[gather.Row], prefix: str) -> str:
    """A name, with the keys in which those that share it differ."""
    same = [other for other in others if _called(other, name)]
    keys = [
        key
        for key in dict.fromkeys(key for other in same for key in other)
        if key.startswith(prefix)
        and not key.startswith(_NO_DIFFERENCE)
        and len({repr(other.get(key)) for other in same}) > 1
    ]
    short = [key.rpartition(".")[2] for key in keys]
    shown = [
        k if short.count(s) > 1 or s == "name" else s for k, s in zip(keys, short, strict=True)
    ]
    told = [f"{s}={own[k]}" for s, k in zip(shown, keys, strict=True) if own.get(k) is not None]
    return ", ".join([name, *told])


def _called(config: gather.Row, name: str) -> bool:
    return name in (config["policy"], config["environment"])

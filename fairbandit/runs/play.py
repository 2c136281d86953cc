"""Plays runs from Python: one run, or all combinations of some settings."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml  # type: ignore[import-untyped]

from fairbandit.errors import FairbanditError, shown
from fairbandit.policy.build import preset, presets
from fairbandit.registry import PART_KINDS
from fairbandit.registry.plugins import load_plugins
from fairbandit.runs.folder import folder_name
from fairbandit.runs.saved import Callback, Run
from fairbandit.runs.tables import tidy

if TYPE_CHECKING:
    import pandas as pd

Config = Mapping[str, Any] | str | PathLike[str]
"""The config of a run: a mapping, the path of a YAML file, or the name of a policy."""


def run(
    config: Config,
    folder: str | PathLike[str] | None = None,
    callbacks: Sequence[Callback] = (),
) -> Run:
    """Plays a policy in an environment.

    Args:
        config: `policy`, `environment` (by default the simulation) and any keys of
            `fairbandit.runs.settings.Settings`, as on the command line; or the path of a YAML file
            with such a mapping; or the name of a policy. A policy or an environment is a name, or a
            mapping with `name` and parameters; keys may have dots, as in `"environment.noise"`.
        folder: where the files of the run are written, in the form of the command line. A finished
            run of the same config is read, and an interrupted one continued. None keeps no file.
        callbacks: objects that take part in the run; see `Callback`.

    Returns:
        The run, with `settings`, `finals`, `curves` and `folder`.

    Raises:
        FairbanditError: the config is wrong, or the folder holds a run of another config.

    Example:
        run = fairbandit.run({"policy": "fair_greedy", "rounds": 500, "environment.noise": 0.5})
        run.finals.groupby(["measure", "group"])["value"].mean()
    """
    from fairbandit.runs.execute import execute  # it imports TensorBoard

    plain_config = plain(config)
    if folder is not None:
        return Run(Path(folder), execute(plain_config, Path(folder), callbacks=callbacks))
    with tempfile.TemporaryDirectory(prefix="fairbandit-") as place:
        made = Run(Path(place), execute(plain_config, Path(place), callbacks=callbacks))
        return made.kept()


def sweep(
    config: Config,
    over: Mapping[str, Iterable[Any]],
    folder: str | PathLike[str] | None = None,
    *,
    jobs: int = 1,
    curves: bool = False,
) -> pd.DataFrame:
    """Plays a run for each combination of some settings.

    Args:
        config: as for `run`.
        over: the values of each key, such as `{"policy": ["greedy", "oful"], "seed": range(5)}`.
        folder: where each run has a folder of its own; a second call continues. None keeps no file.
        jobs: the number of processes.
        curves: returns the curves in place of the finals.

    Returns:
        The table that `load` returns.
    """
    values = dict[str, list[Any]]()
    for key, axis in over.items():
        listed = isinstance(axis, Iterable) and not isinstance(axis, str)
        values[key] = list(axis) if listed else []
        if not values[key]:
            raise FairbanditError(
                f"over: expected the values of {key!r} as a list, such as [1, 2]; got {shown(axis)}"
            )
    configs, places = [], []
    for combination in product(*values.values()):
        chosen = dict(zip(values, combination, strict=True))
        configs.append(plain({**plain(config), **chosen}))
        name = folder_name(f"{key}={value}" for key, value in chosen.items())
        places.append(None if folder is None else Path(folder, name))
    if jobs == 1:
        runs = [run(*pair) for pair in zip(configs, places, strict=True)]
    else:
        with ProcessPoolExecutor(jobs, get_context("spawn"), load_plugins) as pool:
            runs = list(pool.map(run, configs, places))
    return tidy(runs, curves=curves)


def plain(config: Config) -> dict[str, Any]:
    """Returns a config as nested plain data, in which each part is a mapping with its name."""
    if isinstance(config, (str, PathLike)):
        path = Path(config)
        if path.suffix not in (".yaml", ".yml"):
            config = {"policy": str(config)}
        else:
            config = yaml.safe_load(path.read_text(encoding="utf-8"))
            if not isinstance(config, Mapping):
                raise FairbanditError(f"{path} must hold a mapping, such as policy: greedy")
    nested: dict[str, Any] = {"environment": "simulation"}
    for key, value in config.items():
        *above, last = key.replace("/", ".").split(".")
        place = nested
        for name in above:
            inner = place.get(name, {})
            place[name] = {"name": inner} if isinstance(inner, str) else dict(inner)
            place = place[name]
        place[last] = dict(value) if isinstance(value, Mapping) else value
    policy = nested.get("policy")
    if isinstance(policy, Mapping) and policy.get("name") in presets():
        defaults = preset(policy["name"])
        for kind in PART_KINDS:  # a parameter alone belongs to the part of the named policy
            if isinstance(part := policy.get(kind), Mapping) and "name" not in part:
                nested["policy"][kind] = {**defaults[kind], **part}
    if isinstance(nested["environment"], str):
        nested["environment"] = {"name": nested["environment"]}
    return nested

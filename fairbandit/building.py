"""Builds policies and environments from plain data or files of `conf/policy/`, without Hydra."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

import fairbandit.environments
import fairbandit.metrics  # noqa: F401 - both register classes; `policy` imports the other folders
from fairbandit import registry
from fairbandit.environments.base import Environment
from fairbandit.errors import FairbanditError
from fairbandit.maths.checks import shown
from fairbandit.policy import Policy

_OF_FIGURES = ("label", "order")  # keys of a policy's file that only figures use


def build(config: Mapping[str, Any]) -> Policy | Environment:
    """Builds a policy or an environment from plain data.

    Args:
        config: for a policy, `split`, `estimator`, `rank` and, if not `argmax`, `selector`; each is
            a part's name, or a mapping with `name` and hyperparameters. `name` and `refresh` are
            optional; the `name` of a file in `conf/policy/` supplies missing parts. `label` and
            `order` are ignored. For an environment, `name` and its parameters.

    Returns:
        The policy or the environment.

    Raises:
        FairbanditError: a kind, name or parameter is unknown, or a value has the wrong type.

    >>> policy = build({"split": "halves", "rank": "empirical_cdf",
    ...                 "estimator": {"name": "ridge", "regularization": 1.0}})
    >>> policy.describe()["estimator"]
    {'name': 'ridge', 'regularization': 1.0, 'noise': 1e-08}
    >>> print(build({"name": "oful"}).estimator)
    estimator 'optimistic_ridge'
    >>> build({"name": "simulation", "noise": 0.5}).places
    4
    """
    if _describes_policy(config):
        return build_policy(config)
    environment: Environment = registry.create("environment", config)
    return environment


def build_policy(config: str | Mapping[str, Any]) -> Policy:
    """Builds a policy from the name of a preset, or from plain data like `build`.

    Raises:
        FairbanditError: the data are invalid, or describe an environment.
    """
    given = config
    config = {"name": given} if isinstance(given, str) else given
    if not isinstance(config, Mapping) or not _describes_policy(config):
        raise FairbanditError(
            f"expected a policy, got {shown(given)}; a policy is one of {', '.join(presets())}, "
            f"or a mapping with {', '.join(registry.PART_KINDS)}"
        )
    if config.get("name") in presets() and not config.keys() >= set(registry.PART_KINDS):
        config = {**preset(config["name"]), **config}
    unknown = sorted(set(config) - {*registry.PART_KINDS, *_OF_FIGURES, "name", "refresh"})
    missing = sorted({"split", "estimator", "rank"} - set(config))
    if unknown or missing:
        raise FairbanditError(
            f"a policy is made of {', '.join(registry.PART_KINDS)} and may have a name and a "
            f"refresh; unknown: {unknown or 'none'}, missing: {missing or 'none'}"
        )
    described = {"selector": "argmax", **config}
    parts = {kind: registry.create(kind, described[kind]) for kind in registry.PART_KINDS}
    refresh = config.get("refresh")
    if type(refresh) not in (int, float, type(None)):
        raise FairbanditError(f"refresh: expected a number above 1, or null; got {shown(refresh)}")
    return Policy(**parts, refresh=refresh, name=config.get("name") or "custom")


def _describes_policy(config: Mapping[str, Any]) -> bool:
    name = config.get("name")
    if not (name is None or isinstance(name, str)):
        raise FairbanditError(f"name: expected a text, got {shown(name)}")
    return name in presets() or bool(config.keys() & set(registry.PART_KINDS))


def conf_folder() -> Path:
    """Returns the config folder: in the package (a wheel), or beside it (a checkout)."""
    package = Path(__file__).resolve().parent
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


def presets() -> dict[str, Path]:
    """Returns the file of each named policy, sorted by name."""
    return {file.stem: file for file in sorted((conf_folder() / "policy").glob("*.yaml"))}


@cache
def policy_labels() -> dict[str, str]:
    """Returns the label of each named policy in figures, in the order of figures.

    The keys `label` and `order` of a policy's file set them; they do not affect runs.

    >>> list(policy_labels().items())[:2]
    [('uniform', 'Uniform random'), ('oful', 'OFUL')]
    """
    files = {name: _read_yaml(file) for name, file in presets().items()}
    ordered = sorted(files, key=lambda name: files[name].get("order", math.inf))
    return {name: files[name].get("label", name.replace("_", " ")) for name in ordered}


def preset(name: str) -> dict[str, Any]:
    """Returns a named policy as plain data: for each kind, its `name` and hyperparameters.

    >>> preset("greedy")["estimator"]
    {'name': 'ridge', 'noise': 0.0}
    """
    plain = _read_yaml(presets()[name])
    chosen = [pair for entry in plain["defaults"] if entry != "_self_" for pair in entry.items()]
    parts = {kind: {**_option(kind, part), **plain.get(kind, {})} for kind, part in chosen}
    refresh = {"refresh": plain["refresh"]} if "refresh" in plain else {}
    return {"name": name, **refresh, **parts}


def _option(kind: str, choice: str) -> dict[str, Any]:
    """Returns a part as plain data: its file in `conf/policy/KIND/`, or its name."""
    file = conf_folder() / "policy" / kind / f"{choice}.yaml"
    if not file.exists():
        return {"name": choice}
    values = _read_yaml(file)
    part, _ = values.pop("defaults")
    return {"name": part, **values}


def _read_yaml(file: Path) -> dict[str, Any]:
    plain: Any = OmegaConf.to_container(OmegaConf.load(file))
    return plain

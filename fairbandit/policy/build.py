"""Builds policies and environments from plain data or files of `conf/policy/`, without Hydra."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

import fairbandit.environments
import fairbandit.metrics  # noqa: F401 - both register classes; `policy` imports the other folders
from fairbandit import registry
from fairbandit.environments.base import Environment
from fairbandit.errors import FairbanditError, did_you_mean, shown
from fairbandit.policy.policy import Policy

Dashes = tuple[Annotated[float, Meta(gt=0)], ...]  # the lengths of the dashes and gaps of a line


def build(config: str | Mapping[str, Any]) -> Policy | Environment:
    """Builds a policy or an environment from its name or from plain data.

    Args:
        config: the name of a policy or else of an environment, or a mapping. For a policy, it has
            `split`, `estimator`, `rank` and, if not `argmax`, `selector`; each is a part's name, or
            a mapping with `name` and hyperparameters. `name` and `refresh` are optional; the `name`
            of a file in `conf/policy/` supplies missing parts. Other keys of such a file are
            ignored. For an environment, it has `name` and its parameters.

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
    >>> build("fair_greedy").name, build({"name": "simulation", "noise": 0.5}).places
    ('fair_greedy', 4)
    """
    config = {"name": config} if isinstance(config, str) else config
    if not isinstance(config, Mapping):
        raise FairbanditError(
            f"expected the name of a policy or an environment, or a mapping; got {shown(config)}"
        )
    if _describes_policy(config):
        return build_policy(config)
    name, known = config.get("name"), registry.names("environment")
    if name not in known and (guess := did_you_mean(name, presets())):
        raise FairbanditError(f"unknown policy or environment {name!r}{guess}")
    environment: Environment = registry.create("environment", config)
    return environment


def build_policy(config: str | Mapping[str, Any]) -> Policy:
    """Builds a policy from the name of a preset, or from plain data like `build`."""
    given = config
    config = {"name": given} if isinstance(given, str) else given
    if not isinstance(config, Mapping) or not _describes_policy(config):
        raise FairbanditError(
            f"expected a policy, got {shown(given)}{did_you_mean(given, presets())}; "
            f"a policy is one of {', '.join(presets())}, "
            f"or a mapping with {', '.join(registry.PART_KINDS)}"
        )
    if config.get("name") in presets() and not config.keys() >= set(registry.PART_KINDS):
        config = {**preset(config["name"]), **config}
    keys = {*registry.PART_KINDS, *NamedPolicy.__struct_fields__, "refresh"}
    unknown = sorted(config.keys() - keys)
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


def build_saved(config: Mapping[str, Any], policy: Policy | None = None) -> Policy:
    """Builds the policy that a file describes. A file is data, and runs no code.

    `policy` is the policy itself, for parts that were made in Python, such as a network; it must
    be the policy that the file describes.
    """
    if policy is not None:
        if policy.describe() != config:
            raise FairbanditError(
                f"policy: expected the policy that was saved, {config}; got {policy.describe()}"
            )
        return policy
    again = "give a policy with parts that were made in Python again, as policy="
    if "_target_" in repr(config):
        raise FairbanditError(f"the file names code, which no file can run; {again}")
    try:
        return build_policy(config)
    except FairbanditError as error:
        raise FairbanditError(f"{error}; {again}") from error


def _describes_policy(config: Mapping[str, Any]) -> bool:
    name = config.get("name")
    if not (name is None or isinstance(name, str)):
        raise FairbanditError(f"name: expected a text, got {shown(name)}")
    return name in presets() or bool(config.keys() & set(registry.PART_KINDS))


class PolicyLook(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The look of a policy in figures; looks differ without colour, too.

    Attributes:
        colour: the colour, as #rrggbb.
        line: the style of lines: a name, or the lengths of dashes and gaps in points.
        marker: the marker of points, a letter or sign of matplotlib.
        hatch: the pattern of bars, in the signs of matplotlib.
    """

    colour: Annotated[str, Meta(pattern=r"\A#[0-9a-f]{6}\Z")]
    line: Literal["solid", "dashed", "dashdot", "dotted"] | Dashes = "solid"
    marker: Annotated[str, Meta(pattern=r"\A[.,ov^<>12348spP*hH+xXDd|_]\Z")] = "o"
    hatch: Annotated[str, Meta(pattern=r"\A[-/\\|+xoO.*]*\Z")] = ""


class NamedPolicy(msgspec.Struct, frozen=True):
    """The entries in the file of a named policy on which no decision depends.

    Attributes:
        name: the name of the policy and of its file.
        label: the name in figures and tables; by default the name, with blanks.
        order: policies are listed by ascending `order`.
        notion: the notion of fairness for which `+experiment=notions` plays the policy; None for a
            policy that it does not play.
        look: the look in figures; None for a look that no named policy has.
    """

    name: str
    label: str
    order: float = math.inf
    notion: str | None = None
    look: PolicyLook | None = None


def conf_folder() -> Path:
    """The config folder: in the package (a wheel), or beside it (a checkout)."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


_further: list[Path] = []


def config_folders() -> list[Path]:
    """The config folders that are searched: the package's own, and then others."""
    return [conf_folder(), *_further]


def search_configs(folders: Iterable[Path]) -> None:
    """Sets the config folders to search after the package's own, like Hydra's search path.

    Refuses a folder that does not exist, and the file of a named policy that is not valid or has
    the name of another, which Hydra would play in its place.
    """
    found = dict.fromkeys(folder.resolve() for folder in folders)
    _further[:] = [folder for folder in found if folder != conf_folder()]
    for folder in _further:
        if not folder.is_dir():
            raise FairbanditError(f"--config-dir: {folder} is not a folder")
    first = dict[str, Path]()
    for file in (file for folder in config_folders() for file in folder.glob("policy/*.yaml")):
        if first.setdefault(file.name, file) != file:
            raise FairbanditError(
                f"{file}: a named policy has this name already, {first[file.name]}; choose another"
            )
    named_policies()


def config_files(group: str) -> dict[str, Path]:
    """The file of each name in a folder of the config folders; earlier folders come first."""
    folders = [folder / group for folder in config_folders()]
    found = {file.stem: file for folder in reversed(folders) for file in folder.glob("*.yaml")}
    return dict(sorted(found.items()))


def presets() -> dict[str, Path]:
    """The file of each named policy, sorted by name."""
    return config_files("policy")


def named_policies() -> dict[str, NamedPolicy]:
    """The descriptions of the named policies, by name and in their `order`.

    >>> [policy.label for policy in named_policies().values()][:2]
    ['Uniform random', 'OFUL']
    """
    return _named_policies(tuple(presets().values()))


def policy_label(name: str) -> str:
    """The label of a policy in figures and tables: a named policy's own, or its name.

    >>> policy_label("oful"), policy_label("my_policy")
    ('OFUL', 'my policy')
    """
    named = named_policies().get(name)
    return named.label if named else name.replace("_", " ")


@cache
def _named_policies(files: Sequence[Path]) -> dict[str, NamedPolicy]:
    found = dict[str, NamedPolicy]()
    for file in files:
        plain = {"name": None, "label": file.stem.replace("_", " "), **_read_yaml(file)}
        try:
            found[file.stem] = named = msgspec.convert(plain, NamedPolicy)
        except msgspec.ValidationError as error:  # such as "Expected `str`, … - at `$.label`"
            raise FairbanditError(f"{file}: {error}") from error
        if named.name != file.stem:
            raise FairbanditError(
                f"{file}: name: expected the name of the file, {file.stem}; got {named.name!r}"
            )
    return dict(sorted(found.items(), key=lambda item: item[1].order))


def preset(name: str) -> dict[str, Any]:
    """Returns a named policy as plain data: for each kind, its `name` and hyperparameters.

    >>> preset("greedy")["estimator"]
    {'name': 'ridge', 'noise': 0.0}
    """
    plain = _read_yaml(file := presets()[name])
    entries = [entry for entry in plain.get("defaults", []) if entry != "_self_"]
    if not entries or not all(isinstance(entry, dict) for entry in entries):
        raise FairbanditError(f"{file}: expected defaults such as `rank: identity`, got {entries}")
    chosen = [pair for entry in entries for pair in entry.items()]
    parts = {kind: {**_option(kind, part), **plain.get(kind, {})} for kind, part in chosen}
    refresh = {"refresh": plain["refresh"]} if "refresh" in plain else {}
    return {"name": name, **refresh, **parts}


def _option(kind: str, choice: str) -> dict[str, Any]:
    file = config_files(f"policy/{kind}").get(choice)
    if file is None:
        return {"name": choice}
    values = _read_yaml(file)
    part, _ = values.pop("defaults")
    return {"name": part, **values}


def _read_yaml(file: Path) -> dict[str, Any]:
    try:
        plain: Any = OmegaConf.to_container(OmegaConf.load(file))
        return {str(key): value for key, value in plain.items()}
    except (OmegaConfBaseException, YAMLError, OSError, ValueError, AttributeError) as error:
        raise FairbanditError(f"{file} cannot be read: {error}") from error

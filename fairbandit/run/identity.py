"""What a run is: its config, the code that plays it, and its data; and how two runs differ."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

import fairbandit
from fairbandit import registry
from fairbandit.build import build
from fairbandit.environments import Environment
from fairbandit.parts import Part
from fairbandit.policy import Policy
from fairbandit.registry import describe
from fairbandit.run.settings import Settings
from fairbandit.streams import GRID

_NO_MATTER = ("threads", "resume")
"""Settings that change nothing of what a run gives."""


def resolved(policy: Policy, environment: Environment, settings: Settings) -> dict[str, Any]:
    """The config of a run; as its summary shows it once an engine has bound the policy."""
    chosen = asdict(settings)
    del chosen["resume"]
    return {"policy": policy.describe(), "environment": describe(environment), **chosen}


def planned(config: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """Nearly always what the summary shows, without making the environment and reading its data."""
    policy = build(config["policy"])
    assert isinstance(policy, Policy)
    described = policy.describe()
    name = str(config["environment"].get("name"))
    node = OmegaConf.structured(registry.node("environment", name))
    merged = OmegaConf.merge(node, config["environment"])
    chosen = asdict(settings)
    del chosen["resume"]
    known = registry.lookup("environment", name)
    if settings.rounds is None:
        chosen["rounds"] = known.rounds
    for kind in registry.PART_KINDS:
        if described[kind].get("exploration", 0) is None:
            described[kind]["exploration"] = known.exploration
    environment = OmegaConf.to_container(merged, enum_to_str=True)
    return {"policy": described, "environment": environment, **chosen}


def identity(policy: Policy, environment: Environment, settings: Settings) -> dict[str, Any]:
    """All that must be the same for a run to go on from a checkpoint, as plain data.

    Args:
        policy: the policy, not bound yet.
        environment: the environment; its data are what its `fingerprint()` says, if it has one.
        settings: the run's, with `rounds` filled in.

    Returns:
        The config without what changes no result, the versions of fairbandit, torch and numpy, the
        grid of rounds, a hash of the source of every part from elsewhere, and the data's
        fingerprint.
    """
    code = {"fairbandit": fairbandit.__version__, "grid": str(GRID)}
    code |= {name: version(name) for name in ("torch", "numpy")}
    parts: dict[str, Part | Environment] = {**policy.parts, "environment": environment}
    for kind, part in parts.items():
        source = _foreign_source(type(part))
        if source:
            code[f"{kind} {part.part_name}"] = source
    fingerprint = getattr(environment, "fingerprint", str)
    config = without_settings(resolved(policy, environment, settings))
    return plain({"config": config, "code": code, "data": fingerprint()})


def without_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config without the settings that change nothing of what a run gives."""
    return {key: value for key, value in config.items() if key not in _NO_MATTER}


def plain(value: Mapping[str, Any]) -> dict[str, Any]:
    """The data as JSON gives them back."""
    back: dict[str, Any] = json.loads(json.dumps(value))
    return back


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """How two nested mappings differ, key by key.

    >>> differences({"a": {"b": 1}, "c": 2}, {"a": {"b": 3}, "d": True})
    ['a.b: 1 there, 3 here', 'c: 2 there, nothing here', 'd: nothing there, true here']
    """
    old, new = _leaves(then), _leaves(now)
    return [
        f"{key}: {_shown(old, key)} there, {_shown(new, key)} here"
        for key in {**old, **new}
        if _shown(old, key) != _shown(new, key)
    ]


def _leaves(value: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, item in value.items():
        here = f"{path}.{key}".lstrip(".")
        found |= _leaves(item, here) if isinstance(item, Mapping) and item else {here: item}
    return found


def _shown(leaves: Mapping[str, Any], key: str) -> str:
    return json.dumps(leaves[key], ensure_ascii=False) if key in leaves else "nothing"


def _foreign_source(cls: type[Any]) -> str:
    """A hash of the file of a class from elsewhere than this package; the package has a version."""
    if cls.__module__.partition(".")[0] == fairbandit.__name__:
        return ""
    try:
        file = inspect.getsourcefile(cls)
    except TypeError:  # made at a prompt
        return ""
    if file is None or not Path(file).is_file():
        return ""
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:12]

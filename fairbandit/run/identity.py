"""What a run is: its config, the code that plays it, and its data; and how two runs differ."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from fairbandit import registry, version
from fairbandit.environments import Environment
from fairbandit.errors import FairbanditError
from fairbandit.policy import Policy
from fairbandit.registry import describe
from fairbandit.run import summary as summaries
from fairbandit.run.hashes import file_hash
from fairbandit.run.settings import Settings, dotted
from fairbandit.run.sources import sources
from fairbandit.streams import GRID

_NO_MATTER = ("threads", "resume")
"""Settings that change nothing of what a run gives."""


def resolved(policy: Policy, environment: Environment, settings: Settings) -> dict[str, Any]:
    """The config of a run; as its summary shows it once an engine has bound the policy."""
    chosen = asdict(settings)
    del chosen["resume"]
    return {"policy": policy.describe(), "environment": describe(environment), **chosen}


def identity(policy: Policy, world: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """All that decides what a run gives, as plain data, found without reading any data.

    Args:
        policy: the policy, not bound yet.
        world: the environment as plain data.
        settings: the run's.

    Returns:
        `config`, without what changes no result; `versions` of fairbandit; `package`, a hash of
        fairbandit's own files; `plugins`, a hash of each module of a plugin that the parts, the
        environment or the metrics rest on; and `data`, a hash of each file that the environment
        reads, null of one that is not there.

    Raises:
        FairbanditError: the environment's description is wrong, or a file cannot be read.
    """
    known = registry.lookup("environment", str(world.get("name")))
    described = registry.completed("environment", world)
    metrics = [registry.lookup("metric", spec["name"]) for spec in settings.metrics.values()]
    classes = [*map(type, policy.parts.values()), known, *metrics]
    try:
        found = {
            "config": _planned(policy, described, known, settings),
            "versions": {"fairbandit": version.VERSION},
            "package": _own_files(),
            "plugins": sources(classes),
            "data": _data(known, described),
        }
    except OSError as error:
        raise FairbanditError(f"cannot read {error.filename}: {error.strerror}") from error
    return plain(found)


def continued(identity: Mapping[str, Any], environment: Environment) -> dict[str, Any]:
    """All that must be the same for a run to go on from a checkpoint.

    Args:
        identity: the run's.
        environment: its environment, whose `fingerprint()` counts too.

    Returns:
        The identity, with the versions of torch and numpy and the grid of rounds among its
        versions, and the fingerprint.
    """
    versions = {name: metadata.version(name) for name in ("torch", "numpy")} | {"grid": str(GRID)}
    return {
        **identity,
        "versions": {**identity["versions"], **versions},
        "fingerprint": environment.fingerprint(),
    }


def changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What makes an identity another one, in words; empty if nothing does.

    What cannot be known, such as the source of a class made at a prompt, counts as changed.

    >>> changes({"plugins": {"a.py": "1", "b.py": "2"}, "data": {"t.csv": "3"}},
    ...         {"plugins": {"a.py": "4"}, "data": {"t.csv": None}})
    ['plugin a.py changed', 'plugin b.py is used no more', 'data t.csv is missing']
    """
    told = [line for key in ("config", "versions") for line in _told(then, now, key)]
    if then.get("package") != now.get("package") and not _told(then, now, "versions"):
        told.append("fairbandit's own files changed")
    for key, noun in (("plugins", "plugin"), ("data", "data")):
        old, new = _mapping(then, key), _mapping(now, key)
        for name in {**old, **new}:
            verb = _verb(key, name, old, new)
            if verb:
                told.append(f"{noun} {name} {verb}")
    if then.get("fingerprint") != now.get("fingerprint"):
        told.append("the environment's data changed")
    return told


def _told(then: Mapping[str, Any], now: Mapping[str, Any], key: str) -> list[str]:
    return differences(_mapping(then, key), _mapping(now, key))


def _mapping(identity: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A part of an identity that may have been read from a damaged file."""
    found = identity.get(key)
    return found if isinstance(found, Mapping) else {}


def _verb(key: str, name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """What became of a module or of a data file; nothing if it is as it was."""
    if name not in new:
        return "is used no more"
    if name not in old:
        return "is new"
    if new[name] is None:
        return "is missing" if key == "data" else "has no source that can be read"
    return "" if old[name] == new[name] else "changed"


def _planned(
    policy: Policy, described: Mapping[str, Any], known: type[Environment], settings: Settings
) -> dict[str, Any]:
    """The config with all defaults, those that the environment's class gives included."""
    chosen = asdict(settings)
    if settings.rounds is None:
        chosen["rounds"] = known.rounds
    parts = policy.describe()
    for kind in registry.PART_KINDS:
        if parts[kind].get("exploration", 0) is None:
            parts[kind]["exploration"] = known.exploration
    whole = {"policy": parts, "environment": described, **chosen}
    return {key: value for key, value in whole.items() if key not in _NO_MATTER}


def _data(known: type[Environment], described: Mapping[str, Any]) -> dict[str, str | None]:
    """Returns the hash of each file that an environment reads.

    An environment that names no file, and has a fingerprint of its own, is built and asked for it.
    The inherited fingerprint says no more than the config.
    """
    parameters = {key: value for key, value in described.items() if key != "name"}
    files = {str(path): file_hash(path) for path in map(Path, known.data_files(parameters))}
    if files or known.fingerprint is Environment.fingerprint:
        return files
    return {"fingerprint": str(registry.create("environment", described).fingerprint())}


@cache
def _own_files() -> str:
    """A hash of the package's modules, as they were when it was first asked for."""
    package = Path(version.__file__).parent
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        digest.update(f"{file.relative_to(package)}\0".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def plain(value: Mapping[str, Any]) -> dict[str, Any]:
    """The data as JSON gives them back, with null for the numbers that it does not know."""
    back: dict[str, Any] = json.loads(json.dumps(summaries.finite(value)))
    return back


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """How two nested mappings differ, key by key.

    >>> differences({"a": {"b": 1}, "c": 2}, {"a": {"b": 3}, "d": True})
    ['a.b: 1 there, 3 here', 'c: 2 there, nothing here', 'd: nothing there, true here']
    """
    old, new = dict(dotted(then)), dict(dotted(now))
    return [
        f"{key}: {_shown(old, key)} there, {_shown(new, key)} here"
        for key in {**old, **new}
        if _shown(old, key) != _shown(new, key)
    ]


def _shown(leaves: Mapping[str, Any], key: str) -> str:
    return json.dumps(leaves[key], ensure_ascii=False) if key in leaves else "nothing"

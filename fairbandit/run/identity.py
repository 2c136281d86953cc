"""The identity of a run: all that decides its results, by which a finished run is recognised."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from fairbandit import registry, version
from fairbandit.environments import Environment
from fairbandit.errors import FairbanditError
from fairbandit.policy import Policy
from fairbandit.registry import describe
from fairbandit.run import summary as summaries
from fairbandit.run.folder import CHECKPOINT, SUMMARY, finished_below
from fairbandit.run.hashes import file_hash
from fairbandit.run.settings import Settings, dotted
from fairbandit.run.sources import sources
from fairbandit.streams import GRID

_NO_MATTER = ("threads", "resume")
"""Settings that do not change the results of a run."""

_TOLD = 3  # changes that a message lists


def resolved(policy: Policy, environment: Environment, settings: Settings) -> dict[str, Any]:
    """Returns the config of a run as its summary shows it, once an engine has bound the policy."""
    chosen = asdict(settings)
    del chosen["resume"]
    return {"policy": policy.describe(), "environment": describe(environment), **chosen}


def identity(policy: Policy, world: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """Returns all that decides the results of a run, as plain data, without loading its data.

    Args:
        policy: the policy, not bound yet.
        world: the environment as plain data.
        settings: those of the run.

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
    plain: dict[str, Any] = json.loads(json.dumps(summaries.finite(found)))
    return plain


def continued(identity: Mapping[str, Any], environment: Environment) -> dict[str, Any]:
    """Returns all that must be the same for a run to continue from a checkpoint.

    This is the identity of the run with the environment's fingerprint, and with torch, numpy and
    the grid of rounds among its versions.
    """
    versions = {name: summaries.installed(name) for name in ("torch", "numpy")} | {
        "grid": str(GRID)
    }
    return {
        **identity,
        "versions": {**identity["versions"], **versions},
        "fingerprint": environment.fingerprint(),
    }


def changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Lists in words how two identities differ; the list is empty if they are the same.

    What cannot be known, such as the source of a class made at a prompt, counts as changed.

    >>> changes({"plugins": {"a.py": "1", "b.py": "2"}, "data": {"t.csv": "3"}},
    ...         {"plugins": {"a.py": "4"}, "data": {"t.csv": None}})
    ['plugin a.py changed', 'plugin b.py is used no more', 'data t.csv is missing']
    """
    versions = differences(_mapping(then, "versions"), _mapping(now, "versions"))
    told = differences(_mapping(then, "config"), _mapping(now, "config")) + versions
    if then.get("package") != now.get("package") and not versions:
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


def _mapping(identity: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Returns a part of an identity that may have been read from a damaged file."""
    found = identity.get(key)
    return found if isinstance(found, Mapping) else {}


def _verb(key: str, name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Says what became of a module or of a data file; nothing if it did not change."""
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
    """Returns the config with all defaults, including those of the environment's class."""
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
    """Returns a hash of the package's modules, computed once in a process."""
    package = Path(version.__file__).parent
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        digest.update(f"{file.relative_to(package)}\0".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Lists how two nested mappings differ, key by key.

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


def finished(
    folder: Path, now: Mapping[str, Any], *, resume: bool
) -> tuple[dict[str, Any] | None, str]:
    """Looks for a finished run in a folder.

    Args:
        folder: the folder.
        now: the identity of the run that writes its results there.
        resume: whether a finished run may be served or replaced.

    Returns:
        The summary, None if there is no finished run, and why its results are not those that the
        run would give, empty if they are.

    Raises:
        FairbanditError: the run in the folder was asked for with another config, by the same code:
            it is another run, and stays; with `resume` false, there is any run.
    """
    if not resume and any((folder / name).exists() for name in (SUMMARY, CHECKPOINT)):
        raise FairbanditError(
            f"{folder} already holds a run, and resume is false; choose another output folder"
        )
    if not (folder / SUMMARY).exists():
        return None, ""
    summary = summaries.read(folder)
    then = summary.get("identity")
    if not isinstance(then, Mapping):
        return summary, "its summary does not say what it was made from"
    if all(then.get(key) == now[key] for key in ("versions", "package", "plugins")):
        different = differences(_mapping(then, "config"), now["config"])
        if different:
            raise FairbanditError(
                f"{folder} already holds a finished run ({SUMMARY}) that differs from this one: "
                f"{'; '.join(different)}. Choose another output folder; resume=false makes a new "
                "one"
            )
    told = changes(then, now)
    if not told:
        with suppress(OSError):  # left by a run that was killed after its summary was written
            (folder / CHECKPOINT).unlink(missing_ok=True)
    more = [f"{len(told) - _TOLD} more changes"] if len(told) > _TOLD else []
    return summary, ", ".join([*told[:_TOLD], *more])


def check_movable(folder: Path, now: Mapping[str, Any]) -> None:
    """Refuses to set aside a folder that holds more than the results of one run.

    Args:
        folder: the folder of a finished run.
        now: the identity of the run that replaces it.

    Raises:
        FairbanditError: the working directory, data or other runs are in the folder.
    """
    others = [Path(other) for other in finished_below(folder) if Path(other) != folder]
    for path in (Path.cwd(), *map(Path, now["data"]), *others):
        if path.exists() and path.resolve().is_relative_to(folder.resolve()):
            raise FairbanditError(
                f"the results in {folder} are to be replaced, and moved away with all that the "
                f"folder holds; but it holds {path} too. Choose another output folder"
            )

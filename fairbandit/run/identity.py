"""The identity of a run: all that decides its results, by which a finished run is recognised."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from fairbandit import plugins, registry, version
from fairbandit.errors import FairbanditError
from fairbandit.files import hash_of, sha256
from fairbandit.policy import Policy
from fairbandit.run import summary as summaries
from fairbandit.run.folder import CHECKPOINT, SUMMARY
from fairbandit.run.settings import Settings, dotted
from fairbandit.streams import CHUNK_ROUNDS

_NO_MATTER = ("threads", "resume")
"""Settings that do not change the results of a run."""

_HASHES = ("plugins", "data")


def identity(policy: Policy, world: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """Returns all that decides the results of a run, as plain data, without loading its data.

    The package counts by its version alone, so whoever edits it plays anew with `resume=false`.

    Args:
        policy: the policy.
        world: the environment as plain data.
        settings: all other keys of the config.

    Returns:
        `config`, without what changes no result; `version` of fairbandit; `plugins`, one hash of
        the files of all plugin folders from which the parts, the environment and the metrics come,
        empty if there are none; and `data`, the fingerprint of the environment. A hash is null
        where a file is missing.
    """
    known = registry.lookup("environment", str(world.get("name")))
    described = registry.completed("environment", world)
    metrics = [registry.lookup("metric", spec["name"]) for spec in settings.metrics.values()]
    parts, chosen = policy.describe(), asdict(settings)
    for kind in registry.PART_KINDS:
        if parts[kind].get("exploration", 0) is None:
            parts[kind]["exploration"] = known.exploration
    if settings.rounds is None:
        chosen["rounds"] = known.rounds
    config = {"policy": parts, "environment": described, **chosen}
    try:
        found = {
            "config": {key: value for key, value in config.items() if key not in _NO_MATTER},
            "version": version.VERSION,
            "plugins": _sources([*map(type, policy.parts.values()), known, *metrics]),
            "data": known.fingerprint({k: v for k, v in described.items() if k != "name"}),
        }
    except OSError as error:
        raise FairbanditError(f"cannot read {error.filename}: {error.strerror}") from error
    return dict(json.loads(json.dumps(summaries.finite(found))))


def continued(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Returns all that must be the same for a run to continue from a checkpoint."""
    versions = {name: metadata.version(name) for name in ("torch", "numpy")}
    return {**identity, **versions, "grid": CHUNK_ROUNDS}


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Lists in words how two identities differ, the keys of their configs first.

    Hashes are listed without their values. An unknown hash, as of a missing file, counts as
    changed.

    >>> differences({"config": {"seed": 0}, "version": "0.1", "plugins": "a", "data": None},
    ...             {"config": {"seed": 1}, "version": "0.2", "plugins": "b", "data": None})
    ['seed: 0 there, 1 here', 'version: "0.1" there, "0.2" here', 'plugins changed', 'data changed']
    """
    old, new = (_texts(one) for one in (then, now))
    found = []
    for key in {**old, **new}:
        there, here = old.get(key, "nothing"), new.get(key, "nothing")
        if key in _HASHES and (there != here or here == "null"):
            found.append(f"{key} changed")
        elif there != here:
            found.append(f"{key}: {there} there, {here} here")
    return found


def _texts(identity: Mapping[str, Any]) -> dict[str, str]:
    texts = {key: json.dumps(value, ensure_ascii=False) for key, value in dotted(identity)}
    return {key.removeprefix("config."): text for key, text in texts.items()}


def _sources(classes: Iterable[type[Any]]) -> str | None:
    """Returns one hash of the files of all plugins that define a class or one of its bases."""
    places = set()
    for cls in classes:
        for base in cls.__mro__:
            place = plugins.folder_of(base)
            own = base.__module__.partition(".")[0] == __name__.partition(".")[0]
            if place is None and base is cls and not own:  # of a script, or made at a prompt
                file = getattr(sys.modules.get(cls.__module__), "__file__", None)
                if file is None:
                    return None
                place = Path(file)
            if place is not None:
                places.add(place)
    return hash_of(_hash_of_modules(place) for place in sorted(places))


@cache
def _hash_of_modules(place: Path) -> str:
    """Returns a hash of a module, or of all modules below a folder, once in a process."""
    if place.is_file():
        return sha256(place)
    files = sorted(place.rglob("*.py"))
    return hash_of(f"{file.relative_to(place)}\0{sha256(file)}" for file in files)


def finished(
    folder: Path, now: Mapping[str, Any], *, resume: bool
) -> tuple[dict[str, Any] | None, str]:
    """Looks for a finished run in the folder of a run of the identity `now`.

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
    then = summary["identity"]
    if all(then.get(key) == now[key] for key in ("version", "plugins")):
        different = differences(*({"config": one["config"]} for one in (then, now)))
        if different:
            raise FairbanditError(
                f"{folder} already holds a finished run ({SUMMARY}) that differs from this one: "
                f"{'; '.join(different)}. Choose another output folder; resume=false makes a new "
                "one"
            )
    why = differences(then, now)
    if not why:  # a run may have been killed after its summary was written
        with suppress(OSError):  # as of a folder that is read-only
            (folder / CHECKPOINT).unlink(missing_ok=True)
    return summary, ", ".join(why)

"""The identity of a run: all data that determine its results, to recognise finished runs."""

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

from fairbandit import registry, version
from fairbandit.errors import FairbanditError
from fairbandit.files.files import hash_of, sha256
from fairbandit.registry import plugins
from fairbandit.runs import summary as summaries
from fairbandit.runs.folder import CHECKPOINT, SUMMARY, OccupiedError
from fairbandit.runs.settings import Job, dotted
from fairbandit.streams import CHUNK_ROUNDS

_NO_MATTER = ("threads", "resume")
"""Settings that do not change the results of a run."""


def identity(job: Job) -> dict[str, Any]:
    """Returns everything that determines the results of a run, as plain data, without loading data.

    Of fairbandit, only the version counts. After editing the package itself, use `resume=false`.

    Returns:
        `config`, without the keys that do not affect results; `version` of fairbandit; `plugins`,
        one hash of the files of all plugins that define the parts, the environment and the
        metrics, empty without plugins; and `data`, the fingerprint of the environment. A hash is
        null if a file is missing.
    """
    known, described = job.environment.cls, job.environment.described()
    parts, chosen = job.policy.describe(), asdict(job.settings)
    for kind in registry.PART_KINDS:
        if parts[kind].get("exploration", 0) is None:
            parts[kind]["exploration"] = known.exploration
    if job.settings.rounds is None:
        chosen["rounds"] = known.rounds
    config = {"policy": parts, "environment": described, **chosen}
    classes = [known, *map(type, (*job.policy.parts.values(), *job.metrics.values()))]
    result = {
        "config": {key: value for key, value in config.items() if key not in _NO_MATTER},
        "version": version.VERSION,
        "plugins": _sources(classes),
        "data": known.fingerprint({k: v for k, v in described.items() if k != "name"}),
    }
    return dict(json.loads(json.dumps(summaries.finite(result))))


def continued(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the data that must be equal for a run to continue from a checkpoint."""
    versions = {name: metadata.version(name) for name in ("torch", "numpy")}
    return {**identity, **versions, "grid": CHUNK_ROUNDS}


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Describes the differences between two identities, the keys of their configs first.

    Hashes are listed without their values. An unknown hash, as with a missing file, counts as
    changed.

    >>> differences({"config": {"seed": 0}, "version": "0.1", "plugins": "a", "data": None},
    ...             {"config": {"seed": 1}, "version": "0.2", "plugins": "b", "data": None})
    ['seed: 0 there, 1 here', 'version: "0.1" there, "0.2" here', 'plugins changed', 'data changed']
    """
    old, new = _json_texts(then), _json_texts(now)
    changes = []
    for key in {**old, **new}:
        there, here = old.get(key, "nothing"), new.get(key, "nothing")
        if key in ("plugins", "data") and (there != here or here == "null"):
            changes.append(f"{key} changed")
        elif there != here:
            changes.append(f"{key}: {there} there, {here} here")
    return changes


def _json_texts(identity: Mapping[str, Any]) -> dict[str, str]:
    texts = {key: json.dumps(value, ensure_ascii=False) for key, value in dotted(identity)}
    return {key.removeprefix("config."): text for key, text in texts.items()}


def _sources(classes: Iterable[type[Any]]) -> str | None:
    places = set()
    for cls in classes:
        for base in cls.__mro__:
            place = plugins.folder_of(base)
            ours = base.__module__.partition(".")[0] == __name__.partition(".")[0]
            if place is None and base is cls and not ours:  # from a script or an interactive prompt
                file = getattr(sys.modules.get(cls.__module__), "__file__", None)
                if file is None:
                    return None
                place = Path(file)
            if place is not None:
                places.add(place)
    return hash_of(_hash_of_modules(place) for place in sorted(places))


@cache
def _hash_of_modules(place: Path) -> str:
    if place.is_file():
        return sha256(place)
    files = sorted(place.rglob("*.py"))
    return hash_of(f"{file.relative_to(place)}\0{sha256(file)}" for file in files)


def finished(
    folder: Path, now: Mapping[str, Any], *, resume: bool
) -> tuple[dict[str, Any] | None, str]:
    """Looks for a finished run in the folder of a run with the identity `now`.

    Returns:
        The summary, or None without a finished run; and the reasons why the run would now give
        other results, or an empty text.

    Raises:
        OccupiedError: the same code has played another config in the folder, so that the results
            of another run would be replaced.
        FairbanditError: `resume` is false and the folder holds any run.
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
        different = differences({"config": then["config"]}, {"config": now["config"]})
        if different:
            raise OccupiedError(
                f"{folder} already holds a finished run ({SUMMARY}) of a different config: "
                f"{'; '.join(different)}. Choose another output folder; resume=false makes a new "
                "folder"
            )
    why = differences(then, now)
    if not why:  # a run may have been killed after its summary was written
        with suppress(OSError):  # for example, the folder is read-only
            (folder / CHECKPOINT).unlink(missing_ok=True)
    return summary, ", ".join(why)

"""The summary of a finished run, which is written last, and the identity by which it is known.

The identity has all data that determine the results of a run.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, NotRequired

import msgspec
from msgspec import Meta
from torch import Tensor

from fairbandit import registry, version
from fairbandit.errors import FairbanditError
from fairbandit.files.files import hash_of, open_regular, sha256, written_aside
from fairbandit.files.formats import Amount, Count, Number, Plain, Sha256, Share, mapping
from fairbandit.metrics.base import Reduce
from fairbandit.registry import plugins
from fairbandit.runs.folder import CHECKPOINT, FILES, SUMMARY
from fairbandit.runs.intervals import moments
from fairbandit.runs.record import Record
from fairbandit.runs.settings import RATES, Job, dotted
from fairbandit.streams import CHUNK_ROUNDS

_NO_MATTER = ("threads", "resume")  # settings that do not change the results of a run

KEYS = ("policy", "environment", "rounds", "replicas", "seed")
"""The first keys of every summary, and of every table, whether or not runs differ in them."""

_Column = Annotated[str, Meta(pattern=rf"\A{registry.NAME.pattern}\Z")]
_STD = {"std": Amount | None, "n": NotRequired[Count]}
_Metric: Any = mapping(mean=Number | None, reduce=Reduce, lower_is_better=bool, **_STD)
_Rate: Any = mapping(mean=Share | None, **_STD)
_Candidates: Any = mapping(mean=Annotated[float, Meta(ge=0, le=2**53)], **_STD)
_Config = mapping(policy=Plain, environment=Plain, metrics=dict[_Column, Plain], picks=Count)
_SUMMARY: Any = mapping(
    policy=str,
    environment=str,
    rounds=Count,
    replicas=Count,
    seed=Annotated[int, Meta(ge=0)],
    groups=list[str],
    knows_truth=bool,
    group_feature=NotRequired[bool | None],
    metrics=dict[_Column, _Metric],
    selection_rate=dict[str, _Rate],
    selected=dict[str, _Candidates],
    received=dict[str, _Candidates],
    seconds=Amount,
    unit=NotRequired[mapping(name=str, std=Amount, mean=NotRequired[Number])],
    config=_Config,
    versions=dict[str, str],
    identity=mapping(config=_Config, version=str, plugins=str | None, data=str | None),
    files=dict[Annotated[str, Meta(pattern=FILES)], Sha256],
)


def summarise(
    config: Mapping[str, Any],
    record: Record,
    *,
    seconds: float,
    files: Mapping[str, str],
    identity: Mapping[str, Any],
    group_feature: bool | None,
) -> dict[str, Any]:
    """Returns the summary of a finished run, as plain data.

    The seconds leave out the unfinished batches of interrupted runs. The files have a hash for each
    path in the run's folder. `group_feature` is whether the features hold the group, if known.
    """
    names, unit = record.group_names, record.unit
    parts = [registry.lookup(k, config["policy"][k]["name"]) for k in registry.PART_KINDS]
    packages = ("torch", "numpy", "omegaconf", "pyarrow", "tensorboard")
    summary = {
        "policy": config["policy"]["name"],
        "environment": config["environment"]["name"],
        **{key: config[key] for key in KEYS[2:]},
        "groups": list(names),
        "knows_truth": any("truth" in part.needs for part in parts),
        "group_feature": group_feature,
        "metrics": {
            column: {
                **_statistic(record.final(column)),
                "reduce": metric.reduce,
                "lower_is_better": metric.lower_is_better,
            }
            for column, metric in record.metrics.items()
        },
        **{key: {name: _statistic(record.final(key, name)) for name in names} for key in RATES},
        **({"unit": unit} if unit else {}),
        "seconds": max(round(seconds, 6), 1e-6),
        "config": dict(config),
        "versions": {
            "fairbandit": version.VERSION,
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in packages},
        },
        "identity": dict(identity),
        "files": dict(sorted(files.items())),
    }
    return summary | {"checksum": checksum(finite(summary))}


def checksum(summary: Mapping[str, Any]) -> str:
    """Returns the hash of a summary without this hash and the seconds, which no two runs share."""
    hashed = {key: value for key, value in summary.items() if key not in ("checksum", "seconds")}
    return hashlib.sha256(json.dumps(hashed).encode()).hexdigest()


def write(summary: Mapping[str, Any], folder: Path) -> None:
    """Writes `summary.json` atomically; NaN and infinities become null."""
    text = json.dumps(finite(summary), indent=2, ensure_ascii=False, allow_nan=False)
    with written_aside(folder / SUMMARY) as file:
        file.write(f"{text}\n".encode())


def read(folder: Path | str) -> dict[str, Any]:
    """Reads and checks the summary of the finished run in a folder."""
    path = Path(folder, SUMMARY)
    try:
        with open_regular(path) as file:
            summary = msgspec.json.decode(file.read(), type=Plain)
        if summary.get("checksum") != checksum(summary):
            raise ValueError("its checksum does not match its contents")
        msgspec.convert(summary, _SUMMARY)
    except (ValueError, RecursionError) as error:
        raise FairbanditError(
            f"{path} is not a valid summary of a run ({error}); it may be truncated, edited, or "
            "from another version. Restore it, or remove it: its command then plays the run again"
        ) from error
    return summary


def _statistic(values: Tensor) -> dict[str, Any]:
    """Returns mean and std of the known values, and their number `n` if some are unknown."""
    count, mean, std = (float(part) for part in moments(values.numpy()))
    spread = {"mean": mean if count > 0 else None, "std": std if count > 1 else None}
    return {**spread, "n": int(count)} if 0 < count < len(values) else spread


def finite(value: Any) -> Any:
    """Returns plain data with None in place of NaN and infinities, which JSON lacks."""
    return json.loads(json.dumps(value), parse_constant=lambda _: None)


def identity(job: Job) -> dict[str, Any]:
    """Returns everything that determines the results of a run, as plain data, without loading data.

    `plugins` is one hash of the files of all plugins that define the parts, the environment and the
    metrics, empty without plugins, and `data` the fingerprint of the environment. A hash is null if
    a file is missing. Of fairbandit, only the version counts: after editing the package itself, use
    `resume=false`.
    """
    environment, described = job.environment.cls, job.environment.described()
    config = {"policy": job.policy.describe(), "environment": described, **asdict(job.settings)}
    for part in (config["policy"][kind] for kind in registry.PART_KINDS):
        if part.get("exploration", 0) is None:
            part["exploration"] = environment.exploration
    if job.settings.rounds is None:
        config["rounds"] = environment.rounds
    classes = [environment, *map(type, (*job.policy.parts.values(), *job.metrics.values()))]
    result = {
        "config": {key: value for key, value in config.items() if key not in _NO_MATTER},
        "version": version.VERSION,
        "plugins": _sources(classes),
        "data": environment.fingerprint({k: v for k, v in described.items() if k != "name"}),
    }
    return dict(finite(result))


def continued(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the data that must be equal for a run to continue from a checkpoint."""
    versions = {name: metadata.version(name) for name in ("torch", "numpy")}
    return {**identity, **versions, "grid": CHUNK_ROUNDS}


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Describes the differences between two identities; an unknown hash counts as changed.

    >>> differences({"config": {"seed": 0}, "version": "0.1", "plugins": "a", "data": None},
    ...             {"config": {"seed": 1}, "version": "0.2", "plugins": "b", "data": None})
    ['seed: 0 there, 1 here', 'version: "0.1" there, "0.2" here', 'plugins changed', 'data changed']
    """
    old, new = (
        {k.removeprefix("config."): json.dumps(v, ensure_ascii=False) for k, v in dotted(identity)}
        for identity in (then, now)
    )
    changes = []
    for key in {**old, **new}:
        there, here = old.get(key, "nothing"), new.get(key, "nothing")
        if key in ("plugins", "data") and (there != here or here == "null"):
            changes.append(f"{key} changed")
        elif there != here:
            changes.append(f"{key}: {there} there, {here} here")
    return changes


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
    """Returns the summary of the finished run in a folder, and why it would now have other results.

    Without a finished run, the summary is None. If nothing has changed, the reasons are empty.

    Raises:
        FairbanditError: the same code has played another config in the folder, so that the results
            of another run would be replaced; or `resume` is false and the folder holds any run.
    """
    if not resume and any((folder / name).exists() for name in (SUMMARY, CHECKPOINT)):
        raise FairbanditError(
            f"{folder} already holds a run, and resume is false; choose another output folder"
        )
    if not (folder / SUMMARY).exists():
        return None, ""
    summary = read(folder)
    then = summary["identity"]
    if all(then.get(key) == now[key] for key in ("version", "plugins")):
        different = differences({"config": then["config"]}, {"config": now["config"]})
        if different:
            raise FairbanditError(
                f"{folder} already holds a finished run ({SUMMARY}) of a different config: "
                f"{'; '.join(different)}. Choose another output folder; resume=false makes a new "
                "folder"
            )
    why = differences(then, now)
    if not why:  # a run may have been killed after its summary was written
        with suppress(OSError):  # for example, the folder is read-only
            (folder / CHECKPOINT).unlink(missing_ok=True)
    return summary, ", ".join(why)

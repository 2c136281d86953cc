"""The summary of a finished run: one JSON file, which is written last."""

from __future__ import annotations

import hashlib
import json
import math
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, NotRequired

import msgspec
from msgspec import Meta
from torch import Tensor

from fairbandit import registry, version
from fairbandit.errors import FairbanditError
from fairbandit.files.files import open_regular, written_aside
from fairbandit.files.formats import Amount, Count, Number, Plain, Sha256, Share, mapping
from fairbandit.metrics.reduction import Reduce
from fairbandit.runs.folder import FILES, SUMMARY
from fairbandit.runs.intervals import moments
from fairbandit.runs.record import Record
from fairbandit.runs.settings import RATES

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
    """Makes the summary of a finished run, as plain data.

    Args:
        config: settings, `policy` and `environment`.
        record: the results of the whole run.
        seconds: the time from the first pool drawn to the last file closed, without the
            unfinished batches of interrupted runs.
        files: the SHA-256 hash of every Parquet file, by its path in the run's folder.
        identity: the identity of the run.
        group_feature: whether the features hold the group; None if that is not known.
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
    """Returns the SHA-256 hash of a summary without this hash, and without its seconds.

    Only the seconds differ between repetitions of a run.
    """
    hashed = {key: value for key, value in summary.items() if key not in ("checksum", "seconds")}
    return hashlib.sha256(json.dumps(hashed).encode()).hexdigest()


def write(summary: Mapping[str, Any], folder: Path) -> None:
    """Writes `summary.json` atomically; NaN and infinities become null."""
    text = json.dumps(finite(summary), indent=2, ensure_ascii=False, allow_nan=False)
    with written_aside(folder / SUMMARY) as file:
        file.write(f"{text}\n".encode())


def read(folder: Path | str) -> dict[str, Any]:
    """Reads the summary of the finished run in a folder.

    Raises:
        FairbanditError: the file cannot be read, its checksum does not match its contents, or an
            entry is not valid.
    """
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
    """Returns the mean and standard deviation (ddof 1) of the known values, None for too few.

    The result has their number `n` if some values, but not all, are unknown.
    """
    count, mean, std = (float(part) for part in moments(values.numpy()))
    spread = {"mean": mean if count > 0 else None, "std": std if count > 1 else None}
    return {**spread, "n": int(count)} if 0 < count < len(values) else spread


def finite(value: Any) -> Any:
    """Returns plain data with None in place of NaN and infinities, which JSON lacks."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (str, int)):  # most values; the check for a Mapping below is slow
        return value
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, (list, tuple)) else value

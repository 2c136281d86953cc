"""The summary of a finished run: one JSON file, which is written last."""

from __future__ import annotations

import hashlib
import json
import math
import platform
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from torch import Tensor

from fairbandit import version
from fairbandit.errors import FairbanditError
from fairbandit.maths.checks import shown
from fairbandit.metrics import REDUCTIONS, REGRETS, Metric
from fairbandit.run.folder import SUMMARY, written_aside
from fairbandit.run.statistics import RunStatistics

KEYS = ("policy", "environment", "rounds", "replicas", "seed")
"""What every summary begins with."""

TIMINGS = ("seconds", "rounds_per_second")
"""What differs between two runs of one command; each of the two confirms the other."""

CHECKSUM = "checksum"
"""The key of a summary's own checksum."""

_OWED = {
    **dict.fromkeys(KEYS[:2], str),
    **dict.fromkeys(KEYS[2:], int),
    "groups": list,
    "config": dict,
}
_SINCE_IDENTITIES: dict[str, type] = {"identity": dict, "files": dict, CHECKSUM: str}
_PACKAGES = ("torch", "numpy", "omegaconf", "pyarrow", "tensorboard")


def summarise(
    config: Mapping[str, Any],
    statistics: RunStatistics,
    *,
    metrics: Mapping[str, Metric],
    group_names: Sequence[str],
    seconds: float,
    files: Mapping[str, str],
    identity: Mapping[str, Any],
) -> dict[str, Any]:
    """The summary of a finished run, as plain data.

    Args:
        config: the resolved config: settings, `policy` and `environment` as they describe
            themselves.
        statistics: those of the whole run.
        metrics: what the run was judged by beside both regrets, by column.
        group_names: the groups' names, in order of their codes.
        seconds: from the first pool drawn to the last file closed; of an interrupted run, the
            sum over its pieces, each up to the checkpoint that the next went on from.
        files: the SHA-256 hash of every Parquet file, by its path in the run's folder.
        identity: all that decides what the run gives.

    Returns:
        The contents of `summary.json`.
    """
    rounds, replicas = config["rounds"], config["replicas"]
    seconds = max(round(seconds, 6), 1e-6)  # fewer digits than their inverse, which confirms all
    summary = {
        "policy": config["policy"]["name"],
        "environment": config["environment"]["name"],
        "rounds": rounds,
        "replicas": replicas,
        "seed": config["seed"],
        "groups": list(group_names),
        **{REGRETS[column]: _spread(statistics.metric(column)) for column in sorted(REGRETS)},
        "selection_rate": _by_group(group_names, statistics.by_group("rates")),
        "selected": _by_group(group_names, statistics.by_group("selected")),
        "received": _by_group(group_names, statistics.by_group("received")),
        "metrics": {
            column: {
                **_spread(statistics.metric(column)),
                "reduce": metric.reduce,
                "lower_is_better": metric.lower_is_better,
            }
            for column, metric in metrics.items()
        },
        "seconds": seconds,
        "rounds_per_second": rounds * replicas / seconds,
        "config": dict(config),
        "versions": _versions(),
        "identity": dict(identity),
        "files": dict(sorted(files.items())),
    }
    return summary | {CHECKSUM: checksum(summary)}


def checksum(summary: Mapping[str, Any]) -> str:
    """The SHA-256 hash, in hexadecimal digits, of a summary's results, which are those of any run.

    Args:
        summary: the summary. The timings, its own checksum and the layout of its file do not count.

    Raises:
        ValueError: the summary holds what JSON cannot say.
    """
    said = {key: value for key, value in summary.items() if key not in (CHECKSUM, *TIMINGS)}
    return hashlib.sha256(json.dumps(finite(said), allow_nan=False).encode()).hexdigest()


def write(summary: Mapping[str, Any], folder: Path) -> None:
    """Writes `summary.json` in one go; numbers that JSON does not know become null."""
    text = json.dumps(finite(summary), indent=2, ensure_ascii=False, allow_nan=False)
    with written_aside(folder / SUMMARY) as file:
        file.write(f"{text}\n".encode())


def read(folder: Path) -> dict[str, Any]:
    """The summary of the finished run in a folder, checked to be one.

    Raises:
        FairbanditError: the file cannot be read, is cut short or damaged, or is something else.
    """
    return read_file(str(folder / SUMMARY))


def read_file(path: str) -> dict[str, Any]:
    """The summary in a file, checked to be one.

    Raises:
        FairbanditError: the file cannot be read, is cut short or damaged, or is something else.
    """
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - 10,000 of them
            summary = json.load(file)
    except OSError as error:
        raise FairbanditError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise FairbanditError(
            f"{path} is not valid JSON: {error}; it may be cut short. Mend or remove it, and try "
            "again; a run whose summary is removed is played again by its command"
        ) from error
    fault = _fault(summary)
    if fault:
        raise FairbanditError(f"{path} is no summary of a run: {fault}")
    assert isinstance(summary, dict)
    return summary


def _fault(summary: Any) -> str:
    """Why something is no summary; empty if it is one."""
    if not isinstance(summary, dict):
        return f"it holds a {type(summary).__name__}, not a mapping"
    owed = _OWED | (_SINCE_IDENTITIES if not _SINCE_IDENTITIES.keys().isdisjoint(summary) else {})
    for key, expected in owed.items():
        if not isinstance(summary.get(key), expected) or isinstance(summary[key], bool):
            return f"{key!r} should be a {expected.__name__}, got {summary.get(key)!r:.60}"
    for key in ("rounds", "replicas"):
        if not 1 <= summary[key] < 2**63:
            return f"{key!r} should be at least 1 and below 2^63, got {shown(summary[key])}"
    if not isinstance(summary.get("versions", {}), dict):
        return f"'versions' should be a dict, got {summary['versions']!r:.60}"
    for key in REGRETS.values():
        if not _is_spread(summary.get(key)):
            return f"{key!r} should have a mean and a std, got {summary.get(key)!r:.60}"
    for key in ("selection_rate", "selected", "received"):
        by_group = summary.get(key)
        if not isinstance(by_group, dict) or not all(
            _is_spread(by_group.get(group)) for group in map(str, summary["groups"])
        ):
            return f"{key!r} should have a mean and a std for each group, got {by_group!r:.60}"
    metrics = summary.get("metrics", {})
    if not isinstance(metrics, dict) or not all(map(_is_metric, metrics.values())):
        return f"'metrics' should give mean, std and reduce of each metric, got {metrics!r:.60}"
    for key in TIMINGS:
        if not _is_number(summary.get(key)):
            return f"{key!r} should be a number, got {summary.get(key)!r:.60}"
    if not isinstance(summary["config"].get("policy"), dict):
        return "'config' should describe the policy"
    if CHECKSUM in summary and not (
        summary[CHECKSUM] == checksum(summary)
        and summary["seconds"] > 0
        and summary["rounds_per_second"] == _speed(summary)
    ):
        return "its checksum is not that of its contents: it was damaged, or changed by hand"
    return ""


def _speed(summary: Mapping[str, Any]) -> float:
    return float(summary["rounds"] * summary["replicas"] / summary["seconds"])


def _is_spread(value: Any) -> bool:
    return isinstance(value, dict) and all(
        part in value and (value[part] is None or _is_number(value[part]))
        for part in ("mean", "std")
    )


def _is_metric(value: Any) -> bool:
    return _is_spread(value) and value.get("reduce") in REDUCTIONS


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _spread(values: Tensor) -> dict[str, float | None]:
    """Mean and standard deviation (ddof 1) of the known values; null of too few."""
    known = values[~values.isnan()].double()
    mean = known.mean().item() if len(known) else None
    return {"mean": mean, "std": known.std().item() if len(known) > 1 else None}


def _by_group(names: Sequence[str], values: Tensor) -> dict[str, dict[str, float | None]]:
    return {name: _spread(column) for name, column in zip(names, values.unbind(1), strict=True)}


def _versions() -> dict[str, str]:
    own = {"fairbandit": version.VERSION, "python": platform.python_version()}
    return own | {name: metadata.version(name) for name in _PACKAGES}


def finite(value: Any) -> Any:
    """Plain data with null for the numbers that JSON does not know."""
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

"""The summary of a finished run: one JSON file, which is written last."""

from __future__ import annotations

import hashlib
import json
import math
import platform
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from torch import Tensor

from fairbandit import registry, version
from fairbandit.errors import FairbanditError
from fairbandit.maths.checks import shown
from fairbandit.metrics import REDUCTIONS, REGRETS
from fairbandit.run.folder import SUMMARY, written_aside
from fairbandit.run.settings import BY_GROUP
from fairbandit.run.statistics import RunStatistics

KEYS = ("policy", "environment", "rounds", "replicas", "seed")
"""The keys that every summary begins with."""

TIMINGS = ("seconds", "rounds_per_second")
"""The keys that differ between two runs of one command. Each follows from the other."""

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
    seconds: float,
    files: Mapping[str, str],
    identity: Mapping[str, Any],
) -> dict[str, Any]:
    """Makes the summary of a finished run, as plain data.

    Args:
        config: the resolved config: settings, `policy` and `environment` as they describe
            themselves.
        statistics: those of the whole run.
        seconds: from the first pool drawn to the last file closed; for an interrupted run, the
            sum over its pieces, each up to the checkpoint from which the next one continued.
        files: the SHA-256 hash of every Parquet file, by its path in the run's folder.
        identity: all that decides the results of the run.

    Returns:
        The contents of `summary.json`.
    """
    names = statistics.group_names
    seconds = max(round(seconds, 6), 1e-6)  # rounded, so that their inverse confirms each digit
    summary = {
        "policy": config["policy"]["name"],
        "environment": config["environment"]["name"],
        **{key: config[key] for key in KEYS[2:]},
        "groups": list(names),
        "knows_truth": _knows_truth(config["policy"]),
        **{REGRETS[column]: _spread(statistics.metric(column)) for column in sorted(REGRETS)},
        **{key: _by_group(names, statistics.by_group(key)) for key in BY_GROUP},
        "metrics": {
            column: {
                **_spread(statistics.metric(column)),
                "reduce": metric.reduce,
                "lower_is_better": metric.lower_is_better,
            }
            for column, metric in statistics.metrics.items()
        },
        "seconds": seconds,
        "rounds_per_second": config["rounds"] * config["replicas"] / seconds,
        "config": dict(config),
        "versions": {
            "fairbandit": version.VERSION,
            "python": platform.python_version(),
            **{name: installed(name) for name in _PACKAGES},
        },
        "identity": dict(identity),
        "files": dict(sorted(files.items())),
    }
    return summary | {CHECKSUM: checksum(finite(summary))}


def _knows_truth(policy: Mapping[str, Any]) -> bool:
    """Whether a part of a policy, as it describes itself, reads the truth."""
    parts = [(kind, policy[kind]["name"]) for kind in registry.PART_KINDS]
    return any(registry.lookup(kind, name).needs_truth for kind, name in parts)


@cache
def installed(package: str) -> str:
    """Returns the version of an installed package, which stays the same within a process."""
    return metadata.version(package)


def checksum(summary: Mapping[str, Any]) -> str:
    """Returns the SHA-256 hash of a summary without its timings and its own checksum.

    Raises:
        ValueError: the summary holds what JSON cannot say.
    """
    said = {key: value for key, value in summary.items() if key not in (CHECKSUM, *TIMINGS)}
    return hashlib.sha256(json.dumps(said, allow_nan=False).encode()).hexdigest()


def write(summary: Mapping[str, Any], folder: Path) -> None:
    """Writes `summary.json` whole or not at all; NaN and infinities become null."""
    text = json.dumps(finite(summary), indent=2, ensure_ascii=False, allow_nan=False)
    with written_aside(folder / SUMMARY) as file:
        file.write(f"{text}\n".encode())


def read(folder: Path | str) -> dict[str, Any]:
    """Reads and checks the summary of the finished run in a folder.

    Raises:
        FairbanditError: the file cannot be read, is cut short or damaged, or is something else.
    """
    path = f"{folder}/{SUMMARY}"
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - 10,000 of them
            summary = json.load(file, parse_constant=_refuse_constant)
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


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _fault(summary: Any) -> str:
    """Says why something is no summary; the text is empty if it is one."""
    if not isinstance(summary, dict):
        return f"it holds a {type(summary).__name__}, not a mapping"
    for key, fits, wanted in _checks(summary):
        if not fits:
            return f"{key!r} should {wanted}, got {shown(summary.get(key))}"
    if CHECKSUM in summary and not (
        _own_checksum(summary)
        and (seconds := summary["seconds"]) > 0
        and summary["rounds_per_second"] == summary["rounds"] * summary["replicas"] / seconds
    ):
        return "its checksum is not that of its contents: it was damaged, or changed by hand"
    return ""


def _own_checksum(summary: Mapping[str, Any]) -> bool:
    try:
        return bool(summary[CHECKSUM] == checksum(summary))
    except ValueError:  # a number beyond double precision, read as infinity
        return False


def _checks(summary: dict[str, Any]) -> Iterator[tuple[str, bool, str]]:
    """Yields keys, whether each value fits, and what it should be; later checks need the earlier.

    Older summaries have no identity, no hashes of files and no checksum.
    """
    recent = not _SINCE_IDENTITIES.keys().isdisjoint(summary)
    for key, kind in {**_OWED, **(_SINCE_IDENTITIES if recent else {})}.items():
        value = summary.get(key)
        yield key, isinstance(value, kind) and not isinstance(value, bool), f"be a {kind.__name__}"
    for key in ("rounds", "replicas"):
        yield key, 1 <= summary[key] < 2**63, "be at least 1 and below 2^63"
    yield "versions", isinstance(summary.get("versions", {}), dict), "be a dict"
    spread = "have a mean and a std"
    for key in REGRETS.values():
        yield key, _is_spread(summary.get(key)), spread
    for key in BY_GROUP:
        by_group = summary.get(key)
        known = isinstance(by_group, dict) and all(
            _is_spread(by_group.get(str(group))) for group in summary["groups"]
        )
        yield key, known, f"{spread} for each group"
    metrics = summary.get("metrics", {})
    known = isinstance(metrics, dict) and all(
        _is_spread(one) and one.get("reduce") in REDUCTIONS for one in metrics.values()
    )
    yield "metrics", known, "give mean, std and reduce of each metric"
    for key in TIMINGS:
        yield key, _is_number(summary.get(key)), "be a number"
    yield "config", isinstance(summary["config"].get("policy"), dict), "describe the policy"


def _is_spread(value: Any) -> bool:
    return isinstance(value, dict) and all(
        part in value and (value[part] is None or _is_number(value[part]))
        for part in ("mean", "std", *({"n"} & value.keys()))
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _spread(values: Tensor) -> dict[str, float | int | None]:
    """Returns mean and standard deviation (ddof 1) of the known values, null for too few.

    Their number `n` is given where some values, but not all, are unknown.
    """
    known = values[~values.isnan()].double()
    mean = known.mean().item() if len(known) else None
    spread = {"mean": mean, "std": known.std().item() if len(known) > 1 else None}
    return {**spread, "n": len(known)} if 0 < len(known) < len(values) else spread


def _by_group(names: Sequence[str], values: Tensor) -> dict[str, dict[str, Any]]:
    return {name: _spread(column) for name, column in zip(names, values.unbind(1), strict=True)}


def finite(value: Any) -> Any:
    """Returns plain data with None for NaN and infinities, which JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (str, int)):  # most values, and to ask for a Mapping is slow
        return value
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, (list, tuple)) else value

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
from fairbandit.files import written_aside
from fairbandit.maths.checks import shown
from fairbandit.maths.moments import moments
from fairbandit.metrics import REDUCTIONS, REGRETS
from fairbandit.run.folder import CURVES, SUMMARY
from fairbandit.run.settings import BY_GROUP
from fairbandit.run.statistics import RunStatistics

KEYS = ("policy", "environment", "rounds", "replicas", "seed")
"""The keys that every summary begins with."""

SECONDS = "seconds"
"""The key that differs between two runs of one command."""

CHECKSUM = "checksum"
"""The key of a summary's own checksum."""

_TYPES: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("policy", "environment", CHECKSUM), str),
    **dict.fromkeys(("rounds", "replicas", "seed"), int),
    **dict.fromkeys(("config", "metrics", "versions", "identity", "files", *BY_GROUP), dict),
    "groups": list,
    SECONDS: (int, float),
}
_MOST_DIGITS = 300  # of an integer; it can be compared with numbers in double precision
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
    summary = {
        "policy": config["policy"]["name"],
        "environment": config["environment"]["name"],
        **{key: config[key] for key in KEYS[2:]},
        "groups": list(names),
        "knows_truth": _knows_truth(config["policy"]),
        "metrics": {
            column: {
                **_spread(statistics.metric(column)),
                "reduce": metric.reduce,
                "lower_is_better": metric.lower_is_better,
            }
            for column, metric in statistics.metrics.items()
        },
        **{key: _by_group(names, statistics.by_group(key)) for key in BY_GROUP},
        SECONDS: max(round(seconds, 6), 1e-6),
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
    """Returns the SHA-256 hash of a summary without its seconds and its own checksum.

    Raises:
        ValueError: the summary holds what JSON cannot say.
    """
    kept = {key: value for key, value in summary.items() if key not in (CHECKSUM, SECONDS)}
    return hashlib.sha256(json.dumps(kept, allow_nan=False).encode()).hexdigest()


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
    path = Path(folder, SUMMARY)
    if path.exists() and not path.is_file():  # a pipe would block the reader
        raise FairbanditError(f"{path} is not a regular file; remove it")
    try:
        summary = json.loads(path.read_bytes(), parse_constant=_refuse_constant, parse_int=_integer)
    except OSError as error:
        raise FairbanditError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise FairbanditError(
            f"{path} is not valid JSON: {error}; it may be cut short. Mend or remove it, and try "
            "again; a run whose summary is removed is played again by its command"
        ) from error
    if isinstance(summary, dict) and "fair_pseudo_regret" in summary:
        raise FairbanditError(
            f"{path} was written before runs had a {CURVES}, and cannot be read by this version; "
            "move its folder away, and give its command again"
        )
    fault = next(_faults(summary), "")
    if fault:
        raise FairbanditError(f"{path} is no summary of a run: {fault}")
    assert isinstance(summary, dict)
    return summary


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"an integer has {len(digits)} digits")
    return int(digits)


def _faults(summary: Any) -> Iterator[str]:
    """Yields why something is no summary; what follows the first fault may rest on it."""
    if not isinstance(summary, dict):
        yield f"it holds a {type(summary).__name__}, not a mapping"
    for key, kind in _TYPES.items():
        value = summary.get(key)
        if not isinstance(value, kind) or isinstance(value, bool):
            yield f"{key!r} cannot be {shown(value)}"
    try:
        expected = checksum(summary)
    except ValueError:  # a number beyond double precision, read as infinity
        expected = ""
    if summary[CHECKSUM] != expected:
        yield "its checksum is not that of its contents: it was damaged, or changed by hand"
    groups, metrics = summary["groups"], summary["metrics"]
    spreads = [*(metrics.get(column) for column in {*REGRETS, *metrics})]
    spreads += [summary[key].get(str(group)) for key in BY_GROUP for group in groups]
    if not all(map(_is_spread, spreads)):
        yield "a metric, or a quantity of a group, has no mean and std"
    if any(one.get("reduce") not in REDUCTIONS for one in metrics.values()):
        yield "a metric does not say how it is reduced"
    if min(summary["rounds"], summary["replicas"]) < 1:
        yield "it is of no round or no replica"
    if not all(isinstance(summary["config"].get(key), dict) for key in KEYS[:2]):
        yield "its config describes no policy and environment"


def _is_spread(value: Any) -> bool:
    return isinstance(value, dict) and all(
        part in value
        and (value[part] is None or isinstance(value[part], (int, float)))
        and not isinstance(value[part], bool)
        for part in ("mean", "std", *({"n"} & value.keys()))
    )


def _spread(values: Tensor) -> dict[str, float | int | None]:
    """Returns mean and standard deviation (ddof 1) of the known values, null for too few.

    Their number `n` is given where some values, but not all, are unknown.
    """
    count, mean, std = (float(part) for part in moments(values.double().numpy()))
    spread = {"mean": mean if count > 0 else None, "std": std if count > 1 else None}
    return {**spread, "n": int(count)} if 0 < count < len(values) else spread


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

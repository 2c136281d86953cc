"""What a run comes to, in one JSON file that is written last."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from torch import Tensor

import fairbandit
from fairbandit.run.folder import SUMMARY, written_aside
from fairbandit.run.tally import Totals

_PACKAGES = ("torch", "numpy", "omegaconf", "pyarrow", "tensorboard")


def summarise(
    config: Mapping[str, Any], totals: Totals, *, group_names: Sequence[str], seconds: float
) -> dict[str, Any]:
    """The summary of a finished run, as plain data.

    Args:
        config: the resolved config: settings, `policy` and `environment` as they describe
            themselves.
        totals: sums over rounds, a row a replica.
        group_names: the groups' names, in order of their codes.
        seconds: from the first pool drawn to the last file closed; of an interrupted run, the
            sum over its pieces, each up to the checkpoint that the next went on from.

    Returns:
        The contents of `summary.json`.
    """
    rounds, replicas = config["rounds"], config["replicas"]
    return {
        "policy": config["policy"]["name"],
        "environment": config["environment"]["name"],
        "rounds": rounds,
        "replicas": replicas,
        "seed": config["seed"],
        "groups": list(group_names),
        "fair_pseudo_regret": _spread(totals.fair),
        "standard_pseudo_regret": _spread(totals.standard),
        "selection_rate": _by_group(group_names, totals.rates),
        "selected": _by_group(group_names, totals.selected),
        "received": _by_group(group_names, totals.received),
        "seconds": seconds,
        "rounds_per_second": rounds * replicas / seconds,
        "config": dict(config),
        "versions": _versions(),
    }


def write(summary: Mapping[str, Any], folder: Path) -> None:
    """Writes `summary.json` in one go; numbers that JSON does not know become null."""
    text = json.dumps(finite(summary), indent=2, ensure_ascii=False, allow_nan=False)
    with written_aside(folder / SUMMARY) as file:
        file.write(f"{text}\n".encode())


def read(folder: Path) -> dict[str, Any]:
    """The summary of the finished run in a folder."""
    contents: dict[str, Any] = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
    return contents


def _spread(values: Tensor) -> dict[str, float | None]:
    """Mean and standard deviation (ddof 1) of the known values; null of too few."""
    known = values[~values.isnan()].double()
    mean = known.mean().item() if len(known) else None
    return {"mean": mean, "std": known.std().item() if len(known) > 1 else None}


def _by_group(names: Sequence[str], values: Tensor) -> dict[str, dict[str, float | None]]:
    return {name: _spread(column) for name, column in zip(names, values.unbind(1), strict=True)}


def _versions() -> dict[str, str]:
    own = {"fairbandit": fairbandit.__version__, "python": platform.python_version()}
    return own | {name: version(name) for name in _PACKAGES}


def finite(value: Any) -> Any:
    """Plain data with null for the numbers that JSON does not know."""
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

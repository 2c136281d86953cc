"""TensorBoard's HParams page: a row for each setting, with what differs and the final means."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams import summary_v2 as hparams

from fairbandit.results import PooledRuns
from fairbandit.results.differences import distinguishing, union
from fairbandit.results.pooling import NO_DIFFERENCE
from fairbandit.run.tensorboard import INSTANTS, titled

_LONGEST = 100  # characters of a value


def rows(runs: Sequence[PooledRuns]) -> list[dict[str, Any]]:
    """Returns the policy and the environment of each run, and the settings in which runs differ."""
    played = [
        {key: value for key, value in run.settings.items() if not key.startswith(NO_DIFFERENCE)}
        for run in runs
    ]
    keys = ["policy", "environment", *distinguishing(played)]
    kept = [{key: one[key] for key in keys if one.get(key) is not None} for one in played]
    return [{k: _shown(v) for k, v in one.items() if len(str(v)) <= _LONGEST} for one in kept]


def columns(settings: Sequence[Mapping[str, Any]], metrics: Sequence[str]) -> Summary:
    """Chooses the columns of all rows: the settings, and the final means of metrics."""
    tags = [*(f"{column}/mean" for column in metrics), *INSTANTS.values()]
    values = {key: [one[key] for one in settings if key in one] for key in union(settings)}
    return hparams.hparams_config_pb(
        [hparams.HParam(key, _domain(own)) for key, own in values.items()],
        [hparams.Metric(tag, display_name=titled(tag.removesuffix("/mean"))) for tag in tags],
    )


def _shown(value: Any) -> bool | float | str:
    """Returns a value that TensorBoard can show; numbers that are no finite double become text."""
    number = isinstance(value, int | float) and abs(value) <= sys.float_info.max
    return value if number else str(value)


def _domain(values: Sequence[Any]) -> hparams.Domain | None:
    """Returns which values a setting takes; None if they are of several types."""
    kinds = {type(value) for value in values}
    if kinds <= {int, float}:
        return hparams.RealInterval(float(min(values)), float(max(values)))
    return hparams.Discrete(sorted(set(values))) if len(kinds) == 1 else None

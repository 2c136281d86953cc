"""TensorBoard's HParams page: a row for each setting, and columns for all in which they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams import summary_v2 as hparams

from fairbandit.metrics import REGRETS
from fairbandit.results import SavedRun, differing
from fairbandit.results.differences import union
from fairbandit.results.pooling import NO_DIFFERENCE
from fairbandit.run.tensorboard import GAP, INSTANTS, tag_of, titled

_LONGEST = 100  # characters of a value


def row(run: SavedRun, name: str) -> Summary:
    """Gives a run its part in the row of its setting, which shows means over the runs.

    Args:
        run: the run.
        name: the name of the setting, which the runs of all seeds share.
    """
    return hparams.hparams_pb(_shown(run), trial_id=name)


def columns(runs: Sequence[SavedRun]) -> Summary:
    """Chooses the columns: what differs between settings, and then what came of them."""
    metrics = union((*sorted(REGRETS), *run.summary["config"].get("metrics", {})) for run in runs)
    results = [
        *(hparams.Metric(f"{tag}/mean", display_name=titled(tag)) for tag in map(tag_of, metrics)),
        *(hparams.Metric(tag, display_name=titled(tag)) for tag in (GAP, *INSTANTS)),
    ]
    shown = [_shown(run) for run in runs]
    told = _telling(shown)
    settings = [
        hparams.HParam(key, _domain([one[key] for one in shown if key in one]))
        for key in union(shown)
        if key in told
    ]
    return hparams.hparams_config_pb(settings, results, time_created_secs=0)


def _telling(shown: Sequence[Mapping[str, Any]]) -> set[str]:
    """Returns both names, and the settings in which environments or policies of one name differ."""
    told = {"environment", "policy"}
    for kind in ("environment", "policy"):
        for name in {one[kind] for one in shown}:
            keys = differing([one for one in shown if one[kind] == name])
            told |= {k for k in keys if k.startswith("environment.") == (kind == "environment")}
    return told


def _shown(run: SavedRun) -> dict[str, Any]:
    """Returns the settings that may have a column: all with short values but the seed."""
    return {
        key: value if isinstance(value, (bool, int, float)) else str(value)
        for key, value in run.settings.items()
        if value is not None and len(str(value)) <= _LONGEST
        if key != "seed" and not key.startswith(NO_DIFFERENCE)
    }


def _domain(values: Sequence[Any]) -> hparams.Domain | None:
    """Returns which values a setting takes; None if they are of several types."""
    kinds = {type(value) for value in values}
    if kinds <= {int, float}:
        return hparams.RealInterval(float(min(values)), float(max(values)))
    return hparams.Discrete(sorted(set(values))) if len(kinds) == 1 else None

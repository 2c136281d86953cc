"""The objective of a run: the metrics by which a sweep that tunes chooses its next jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairbandit import registry
from fairbandit.environments import Environment
from fairbandit.errors import FairbanditError
from fairbandit.metrics import Metric

Returned = float | list[float] | None
"""The value of a run's objective, the values of several, or None where there is none."""


@dataclass(frozen=True)
class Objective:
    """The metrics that a run returns to the sweeper, by their columns."""

    columns: tuple[str, ...] = ()

    def values(self, summary: Mapping[str, Any]) -> Returned:
        """Returns the final value of each metric, the mean over replicas.

        Args:
            summary: that of a finished run.

        Raises:
            FairbanditError: a value is not known.
        """
        found = [_value(summary, column) for column in self.columns]
        return found if len(found) > 1 else next(iter(found), None)


def read_objective(asked: Any, metrics: Mapping[str, Mapping[str, Any]]) -> Objective:
    """Reads the value of a config's key `objective`.

    Args:
        asked: the column of a metric, a list of them, or None.
        metrics: the further metrics of the run by column, as `check_metrics` gives them.

    Raises:
        FairbanditError: something else, or a metric that the run does not record.
    """
    if asked is None:
        return Objective()
    valid = list(metrics)
    names = [asked] if isinstance(asked, str) else asked
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        raise FairbanditError(
            f"objective is the name of a metric, or a list of names; got {asked!r}; the run "
            f"records {', '.join(valid)}"
        )
    unknown = [name for name in names if name not in valid]
    if unknown:
        raise FairbanditError(
            f"objective: the run records no metric {', '.join(map(repr, unknown))}; it records "
            f"{', '.join(valid)}, and metrics={{COLUMN: NAME}} adds others"
        )
    return Objective(tuple(names))


def metric_class(column: str, metrics: Mapping[str, Mapping[str, Any]]) -> type[Metric]:
    """Returns the class of the metric of a column, which is a regret's or one of `metrics`."""
    found: type[Metric] = registry.lookup("metric", metrics[column]["name"])
    return found


def check_known(
    required: Sequence[str], environment: Environment, metrics: Mapping[str, Mapping[str, Any]]
) -> None:
    """Refuses metrics that a run in an environment cannot know.

    Raises:
        FairbanditError: a metric needs a truth, and the environment has none.
    """
    if environment.truth is not None:
        return
    unknown = [name for name in required if metric_class(name, metrics).needs_truth]
    if unknown:
        known = [name for name in metrics if not metric_class(name, metrics).needs_truth]
        raise FairbanditError(
            f"objective: {', '.join(unknown)} cannot be known, because the environment "
            f"{environment.part_name!r} has no truth; metrics of this run that need none: "
            f"{', '.join(known) or 'none; metrics={COLUMN: NAME} records some'}"
        )


def _value(summary: Mapping[str, Any], column: str) -> float:
    """Returns the mean over replicas of a metric's final value."""
    spread = summary["metrics"][column]
    if spread["mean"] is None:
        raise FairbanditError(
            f"objective: the run has no value of {column}: its environment has no truth, or the "
            "value is not finite"
        )
    return float(spread["mean"])

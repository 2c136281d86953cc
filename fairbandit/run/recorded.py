"""Which metrics a run records beside both regrets, and under which columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairbandit import registry
from fairbandit.errors import FairbanditError
from fairbandit.metrics import REDUCTIONS, REGRETS, Metric

TAKEN = frozenset(
    {
        *("policy", "environment", "rounds", "replicas", "seed", "folder"),
        *("replica", "round", "action", "group", "reward", "expected_reward", "rank"),
        *("propensity", *REGRETS, *REGRETS.values()),
        *("instantaneous_regret", "parity_gap", "seconds", "rounds_per_second"),
    }
)
"""Columns and curves that every run has."""

BY_GROUP = ("selection_rate", "selected", "received")
"""What summaries give for each group; columns of tables begin with these names."""


def check_metrics(given: Any) -> dict[str, dict[str, Any]]:
    """Checks the metrics of a config without building them.

    Args:
        given: the registered name of a metric, or a mapping with `name` and parameters, by the
            column that it shall have; None for no metrics.

    Returns:
        The same with all parameters.

    Raises:
        FairbanditError: no mapping; a column that cannot be one or that every run has already; an
            unknown metric or parameter; or a metric that declares an unknown `reduce`.
    """
    if not isinstance(given, Mapping | None):
        raise FairbanditError(
            "metrics must map columns to metrics, as in metrics={COLUMN: NAME} or "
            f"metrics={{COLUMN: {{name: NAME, KEY: VALUE}}}}; got {given!r}"
        )
    checked = {}
    for column, spec in (given or {}).items():
        if not (isinstance(column, str) and registry.NAME.fullmatch(column)):
            raise FairbanditError(
                f"metrics: {column!r} cannot be a column; expected at most 64 letters (a to z), "
                "digits, '_' and '-', a letter first"
            )
        if column in TAKEN or column.startswith(BY_GROUP):
            raise FairbanditError(
                f"metrics: the column {column!r} is taken: every run has {', '.join(sorted(TAKEN))}"
                f", and columns that begin with {', '.join(BY_GROUP)}; choose another name"
            )
        try:
            checked[column] = registry.completed("metric", spec)
        except FairbanditError as error:
            raise FairbanditError(f"metrics.{column}: {error}") from error
        reduce = registry.lookup("metric", checked[column]["name"]).reduce
        if reduce not in REDUCTIONS:
            raise FairbanditError(
                f"metrics.{column}: metric {checked[column]['name']!r} declares reduce = "
                f"{reduce!r}; expected one of {', '.join(REDUCTIONS)}"
            )
    return checked


def build_metrics(checked: Mapping[str, Mapping[str, Any]]) -> dict[str, Metric]:
    """Builds the metrics that `check_metrics` gave, by column.

    Raises:
        FairbanditError: a metric refuses a parameter.
    """
    return {column: registry.create("metric", spec) for column, spec in checked.items()}

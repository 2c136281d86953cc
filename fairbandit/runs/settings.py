"""The config of a run: its keys, and their one check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch
from omegaconf import OmegaConf
from omegaconf.errors import ConfigKeyError, OmegaConfBaseException

from fairbandit import registry
from fairbandit.errors import FairbanditError, unknown
from fairbandit.metrics import REGRETS, Metric
from fairbandit.policy.build import build_policy
from fairbandit.policy.engine import Delays
from fairbandit.policy.policy import Policy
from fairbandit.registry import Checked

COST = "cost_per_pick"
"""The column of the standard regret of a pick, in the unit of a table's reward."""

LACKING = "–"
"""The group of a measure of a whole run, and the value of a setting that a run lacks."""

BY_GROUP = {
    **dict.fromkeys(("selected", "received", "selection_rate", "share")),
    **{"reward": False, "rank": False, "fair_regret_of_pick": True},
    **{"standard_regret_of_pick": True, "raw_reward": False, "cost_of_pick": True},
}
"""The measures of each group, and whether lower is better."""

RATES = ("selection_rate", "selected", "received")
"""The measures of each group in summaries."""

TAKEN = frozenset(
    {
        *("policy", "environment", "rounds", "replicas", "seed", "folder", "measure", "value"),
        *("replica", "round", "slot", "action", "group", "expected_reward", "propensity"),
        *("seconds", COST, *REGRETS, *BY_GROUP),
    }
)
"""Columns and measures that every run has."""


@dataclass
class Settings:
    """The top-level keys of a config.

    Attributes:
        rounds: the number of rounds T; None takes the environment's default.
        replicas: the number of independent runs of the setting, played side by side.
        seed: the seed from which every random stream derives.
        picks: m, the number of candidates picked from each pool; all, if a pool is smaller.
        delay: the mean number of further rounds after which rewards arrive; 0 means at once.
        delay_law: the distribution of delays: `fixed`, or `geometric`, drawn from the seed.
        device: the device of tensors: cpu, cuda, cuda:1, …
        threads: the number of torch threads; None takes one, since sweeps run jobs in parallel.
        resume: whether to continue an unfinished run and keep a finished run; if false, the run
            starts over in a new folder.
        metrics: for each column of the round log, the name of a registered metric, or a mapping
            with `name` and parameters. Both regrets are always recorded first.
    """

    rounds: int | None = None
    replicas: int = 10
    seed: int = 0
    picks: int = 1
    delay: int = 0
    delay_law: str = "fixed"
    device: str = "cpu"
    threads: int | None = None
    resume: bool = True
    metrics: Any = None


def dotted(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the values of nested mappings with dotted keys, each key after the prefix.

    Lists and empty mappings count as values.

    >>> dict(dotted({"a": {"b": 1, "c": [2]}, "d": {}}))
    {'a.b': 1, 'a.c': [2], 'd': {}}
    """
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from dotted(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


_LARGEST_NUMBER = 2**31 - 1


@dataclass(frozen=True)
class Job:
    """A checked run: its policy, environment, metrics (both regrets first) and other settings.

    The environment is not loaded yet.
    """

    policy: Policy
    environment: Checked
    metrics: Mapping[str, Metric]
    settings: Settings


def checked(config: Mapping[str, Any]) -> Job:
    """Checks a config as a whole; missing keys of `Settings` take their defaults.

    Raises:
        FairbanditError: a key is unknown, `policy` or `environment` is missing, a value has the
            wrong type or is out of range, a metric cannot be recorded, or the device is not usable.
    """
    top_level = dict(config)
    described: Any = {key: top_level.pop(key, None) for key in ("policy", "environment")}
    try:
        settings = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(Settings), top_level))
    except OmegaConfBaseException as error:
        key, keys = error.full_key, [field.name for field in fields(Settings)]
        if isinstance(error, ConfigKeyError) and key not in keys:
            raise unknown("setting", key, [*keys, "policy", "environment"]) from error
        raise FairbanditError(f"{key}: {str(error).splitlines()[0]}") from error
    assert isinstance(settings, Settings)
    for key, least in {"rounds": 1, "replicas": 1, "seed": 0, "picks": 1, "threads": 1}.items():
        value = getattr(settings, key)
        if value is not None and value < least:
            raise FairbanditError(f"{key} must be at least {least}, got {value}")
        if value is not None and value > _LARGEST_NUMBER and key != "seed":
            raise FairbanditError(f"{key} must be at most {_LARGEST_NUMBER:,}, got {value}")
    Delays(settings.delay, settings.delay_law, settings.seed)
    metrics = _checked_metrics(settings.metrics)
    _check_device(settings.device)
    environment = registry.checked("environment", described["environment"])
    settings.metrics = {column: metric.described() for column, metric in metrics.items()}
    built = {column: metric.build() for column, metric in metrics.items()}
    return Job(build_policy(described["policy"]), environment, built, settings)


def _check_device(device: str) -> None:
    try:  # to move a number to the device, and to read it back
        torch.ones(1, dtype=torch.float64, device=device).item()
    except (RuntimeError, TypeError, NotImplementedError, AssertionError) as error:
        usable = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
        raise FairbanditError(
            f"device {device!r} cannot be used here: {str(error).splitlines()[0]}; usable devices: "
            f"{', '.join(usable)}"
        ) from error


def _checked_metrics(specs: Any) -> dict[str, Checked]:
    if not isinstance(specs, Mapping | None):
        raise FairbanditError(
            "metrics must map columns to metrics, as in metrics={COLUMN: NAME} or "
            f"metrics={{COLUMN: {{name: NAME, KEY: VALUE}}}}; got {specs!r}"
        )
    metrics = {column: registry.checked("metric", column) for column in REGRETS}
    for column, spec in (specs or {}).items():
        named = isinstance(column, str) and registry.NAME.fullmatch(column)
        if not named or column in TAKEN:
            raise FairbanditError(
                f"metrics: {column!r} cannot be a column; expected at most 64 letters (a to z), "
                "digits, '_' and '-', a letter first. Every run has the columns "
                f"{', '.join(sorted(TAKEN))}"
            )
        try:
            metrics[column] = registry.checked("metric", spec)
        except FairbanditError as error:
            raise FairbanditError(f"metrics.{column}: {error}") from error
    return metrics

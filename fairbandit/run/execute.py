"""One run from config to files: batches of replicas, each played through and recorded."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairbandit.build import build
from fairbandit.engine import Engine, Played
from fairbandit.environments import Environment
from fairbandit.errors import FairbanditError
from fairbandit.policy import Policy
from fairbandit.registry import describe
from fairbandit.run import summary as summaries
from fairbandit.run.batches import replica_batches
from fairbandit.run.folder import ROUNDS, claim
from fairbandit.run.progress import RunProgress
from fairbandit.run.rows import RowsWriter
from fairbandit.run.settings import Settings, settings
from fairbandit.run.tally import Tally
from fairbandit.run.tensorboard import EventWriter

THREADS = 1
"""Torch's threads where a run leaves them unset.

Tensors are small: on two quiet cores a second thread saves at most a quarter of the time, and
beside another busy process it costs twenty times as much. A sweep uses cores by running jobs.
"""


def execute(config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Plays a policy in an environment and writes what came of it.

    Args:
        config: plain data: `policy` and `environment` as `fairbandit.build` takes them, and any
            of the keys of `Settings`.
        folder: where `rounds/part-*.parquet`, TensorBoard's events and, last of all,
            `summary.json` go.

    Returns:
        The summary.

    Raises:
        FairbanditError: a bad config, or a folder that cannot be written to, is in use, or holds
            a finished run.
    """
    checked = settings(config)
    with claim(folder), _threads(checked.threads or THREADS):
        policy, environment = _built(config)
        rounds = environment.rounds if checked.rounds is None else checked.rounds
        summary = _Run(policy, environment, checked, rounds, folder).play()
        summaries.write(summary, folder)
        return summary


class _Run:
    """A policy in an environment, the settings, and a folder that is this run's alone."""

    def __init__(
        self,
        policy: Policy,
        environment: Environment,
        checked: Settings,
        rounds: int,
        folder: Path,
    ) -> None:
        self.policy, self.environment, self.folder = policy, environment, folder
        self.settings = replace(checked, rounds=rounds)
        self.rounds = rounds
        self.tally = Tally(rounds, environment.group_names)

    def play(self) -> dict[str, Any]:
        batches = replica_batches(
            self.settings.replicas,
            rounds=self.rounds,
            places=self.environment.places,
            features=self.environment.features,
        )
        began = time.perf_counter()
        total = self.rounds * self.settings.replicas
        with EventWriter(self.folder) as events, RunProgress(self.policy.name, total) as progress:
            for batch in batches:
                curves = events if batch is batches[-1] else None
                self._record(batch, curves, progress)
        return self._summary(time.perf_counter() - began)

    def _record(
        self, replicas: Sequence[int], events: EventWriter | None, progress: RunProgress
    ) -> None:
        engine = Engine(
            self.policy,
            self.environment,
            rounds=self.rounds,
            seed=self.settings.seed,
            replicas=replicas,
            device=self.settings.device,
        )
        self.tally.start(len(replicas))
        with RowsWriter(self.folder / ROUNDS, list(replicas)) as rows:
            for played in map(_on_cpu, engine.play()):
                rows.add(played)
                self.tally.add(played)
                if events is not None:
                    for step, values in self.tally.points(played):
                        events.add(step, values)
                progress.advance(played.actions.numel())

    def _summary(self, seconds: float) -> dict[str, Any]:
        resolved = {
            "policy": self.policy.describe(),
            "environment": describe(self.environment),
            **asdict(self.settings),
        }
        names = self.environment.group_names
        return summaries.summarise(
            resolved, self.tally.totals(), group_names=names, seconds=seconds
        )


def _built(config: Mapping[str, Any]) -> tuple[Policy, Environment]:
    policy, environment = build(config["policy"]), build(config["environment"])
    for key, made, kind in (("policy", policy, Policy), ("environment", environment, Environment)):
        if not isinstance(made, kind):
            raise FairbanditError(f"{key} describes no {kind.__name__.lower()}: {config[key]}")
    assert isinstance(policy, Policy)
    assert isinstance(environment, Environment)
    return policy, environment


def _on_cpu(played: Played) -> Played:
    values = {field.name: getattr(played, field.name) for field in fields(played)}
    moved = {key: value.cpu() for key, value in values.items() if isinstance(value, Tensor)}
    return Played(**{**values, **moved})


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Torch's threads for the time of a run; the next job of a sweep finds them as they were."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)

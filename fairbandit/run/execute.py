"""One run from config to files: batches of replicas, each played through and recorded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairbandit.build import build
from fairbandit.engine import Engine, Played
from fairbandit.environments import Environment
from fairbandit.errors import FairbanditError
from fairbandit.policy import Policy
from fairbandit.run import boards, rewards
from fairbandit.run import summary as summaries
from fairbandit.run.batches import replica_batches
from fairbandit.run.checkpoint import Checkpoints
from fairbandit.run.finished import finished
from fairbandit.run.folder import ROUNDS, claim, clear, writing
from fairbandit.run.identity import identity, resolved
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


def execute(
    config: Mapping[str, Any],
    folder: Path,
    *,
    wait: bool = False,
    started: Callable[[str], None] | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Plays a policy in an environment and writes what came of it.

    A finished run is left as it is, and one that was cut off goes on from its last checkpoint.

    Args:
        config: plain data: `policy` and `environment` as `fairbandit.build` takes them, and any
            of the keys of `Settings`.
        folder: where `rounds/part-*.parquet`, TensorBoard's events and, last of all,
            `summary.json` go.
        wait: if another process writes to the folder, waits until it is done.
        started: called once the folder is this run's, unless it holds the finished run: with an
            empty text, or with where the run goes on.
        progress: shows a progress bar where there is a terminal.

    Returns:
        The summary.

    Raises:
        FairbanditError: a bad config; a folder that cannot be written to, is in use, or holds a
            run of another config; with `resume` false, a folder that holds any run.
    """
    checked = settings(config)
    found = finished(config, checked, folder)
    if found is not None:
        return found
    with claim(folder, wait=wait), _threads(checked.threads or THREADS):
        found = finished(config, checked, folder)
        if found is not None:  # by the process waited for
            return found
        policy, environment = _built(config)
        rounds = environment.rounds if checked.rounds is None else checked.rounds
        run = _Run(policy, environment, replace(checked, rounds=rounds), folder)
        with writing(folder):
            summary = run.play(started or (lambda text: None), progress=progress)
            summaries.write(summary, folder)
            run.checkpoints.remove()
        return summary


class _Run:
    """A policy in an environment, the settings, and a folder that is this run's alone."""

    def __init__(
        self, policy: Policy, environment: Environment, checked: Settings, folder: Path
    ) -> None:
        assert checked.rounds is not None
        self.policy, self.environment, self.folder = policy, environment, folder
        self.settings, self.rounds = checked, checked.rounds
        self.checkpoints = Checkpoints(folder, identity(policy, environment, checked))
        self.tally = Tally(self.rounds, environment.group_names)
        self.batches = replica_batches(
            checked.replicas,
            rounds=self.rounds,
            places=environment.places,
            features=environment.features,
        )

    def play(self, started: Callable[[str], None], *, progress: bool) -> dict[str, Any]:
        saved = self.checkpoints.load()
        clear(self.folder, keep=saved["parts"] if saved else ())
        started(self._where(saved) if saved else "")
        self.before = saved["seconds"] if saved else 0.0
        self.began = time.perf_counter()
        first = saved["batch"] if saved else 0
        total = self.rounds * self.settings.replicas
        rewards.write(self.environment, self.folder)
        bar = RunProgress(self.policy.name, total, shown=progress)
        with EventWriter(self.folder) as events, bar:
            bar.advance(self.rounds * sum(map(len, self.batches[:first])))
            for index in range(first, len(self.batches)):
                curves = events if index == len(self.batches) - 1 else None
                self._record(index, saved, curves, bar)
                saved = None
        return summaries.summarise(
            resolved(self.policy, self.environment, self.settings),
            self.tally.totals(),
            group_names=self.environment.group_names,
            seconds=self._seconds,
        )

    def _record(
        self,
        index: int,
        saved: Mapping[str, Any] | None,
        events: EventWriter | None,
        progress: RunProgress,
    ) -> None:
        replicas = self.batches[index]
        engine = self._engine(replicas)
        rows = RowsWriter(self.folder / ROUNDS, replicas)
        if saved is None:
            self.tally.start(len(replicas))
        else:
            engine.load_state(saved["engine"])
            self.tally.load_state(saved["tally"])
            rows.load_state(saved["rows"])
            done = engine.history.played
            progress.advance(done * len(replicas))
            self._draw(events, 1, done)
        if events is not None:
            self._introduce(events)
        with rows:
            for played in map(_on_cpu, engine.play()):
                rows.add(played)
                self.tally.add(played)
                self._draw(events, played.first, played.last)
                progress.advance(played.actions.numel())
                if self.checkpoints.due:
                    self._save(index, engine, rows)

    def _engine(self, replicas: Sequence[int]) -> Engine:
        return Engine(
            self.policy,
            self.environment,
            rounds=self.rounds,
            seed=self.settings.seed,
            replicas=replicas,
            device=self.settings.device,
        )

    def _introduce(self, events: EventWriter) -> None:
        config = resolved(self.policy, self.environment, self.settings)
        events.write(boards.layout())
        place = self.folder.absolute()
        events.write(boards.hyperparameters(config, f"{place.name} ({place.parent.name})"))

    def _draw(self, events: EventWriter | None, first: int, last: int) -> None:
        if events is not None:
            for step, values in self.tally.points(first, last):
                events.add(step, values)

    def _save(self, index: int, engine: Engine, rows: RowsWriter) -> None:
        self.checkpoints.save(
            {
                "batch": index,
                "round": engine.history.played,
                "seconds": self._seconds,
                "engine": engine.state(),
                "tally": self.tally.state(),
                "rows": rows.state(),
            }
        )

    @property
    def _seconds(self) -> float:
        return float(self.before + time.perf_counter() - self.began)

    def _where(self, saved: Mapping[str, Any]) -> str:
        batch = self.batches[saved["batch"]]
        which = f" of replicas {batch[0]} to {batch[-1]}" if len(self.batches) > 1 else ""
        return f"round {saved['round'] + 1:,} of {self.rounds:,}{which}"


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

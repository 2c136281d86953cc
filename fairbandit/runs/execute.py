"""Plays one run, batch by batch of replicas, and writes its files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairbandit import registry
from fairbandit.environments import Environment, Table
from fairbandit.errors import FairbanditError
from fairbandit.files import state
from fairbandit.files.files import within
from fairbandit.metrics import Played
from fairbandit.policy.engine import Engine
from fairbandit.runs import summary as summaries
from fairbandit.runs.folder import CHECKPOINT, CURVES, FINALS, ROUNDS, claim, clear, set_aside
from fairbandit.runs.notices import note_rare_groups, note_settings, note_unknown
from fairbandit.runs.record import Record, RoundLog, write_rewards, write_table
from fairbandit.runs.saved import Callback, Run
from fairbandit.runs.separation import holds_group
from fairbandit.runs.settings import Job, checked, dotted
from fairbandit.runs.sheets import progress_bar
from fairbandit.runs.summary import differences, finished, identity
from fairbandit.runs.tensorboard import EventWriter, config_text, layout
from fairbandit.streams import CHUNK_ROUNDS, Streams

THREADS = 1
"""The number of torch threads of a run that does not set it.

Tensors are small: a second thread saves at most a quarter of the time on two idle cores, and makes
a run twenty times slower beside another busy process. A sweep uses cores by running jobs.
"""

BUDGET = 2**30
"""The approximate limit, in bytes, on the pasts of all replicas in one batch."""

_CANDIDATES = 1024  # number of candidates in which `group_feature` is looked for
_EXTRA = 8  # numbers kept per candidate in addition to its features: group, score, rank, …


def execute(
    config: Mapping[str, Any],
    folder: Path,
    *,
    wait: bool = False,
    started: Callable[[str], Any] | None = None,
    progress: bool = True,
    callbacks: Sequence[Callback] = (),
) -> dict[str, Any]:
    """Plays a policy in an environment, writes the results, and returns the summary.

    A finished run is kept while its identity, which determines its results, is the same. If the
    identity has changed, the files move to the sibling `NAME.old-HASH`, and the run is played
    again. An interrupted run continues with its first unfinished batch of replicas, which is played
    anew.

    The config is plain data: `policy` and `environment` as for `fairbandit.build`, and any keys of
    `Settings`. `wait` waits while another process writes to the folder. `started` is called when a
    run begins, with a text on an interrupted run that continues or on results that were set aside.
    """
    job = checked(config)
    summary, changed = finished(folder, identity(job), resume=job.settings.resume)
    if summary is not None and not changed:  # before a lock, since the folder may be read-only
        return summary
    with _threads(job.settings.threads or THREADS), claim(folder, wait=wait):
        environment: Environment = job.environment.build()  # it downloads missing data
        now = identity(job)
        summary, changed = finished(folder, now, resume=job.settings.resume)
        if summary is not None and not changed:  # played by the process that was waited for
            return summary
        run = _Run(job, environment, folder, now, callbacks)
        played = run.batches[run.saved["batches"]].start
        news = f"going on after {played:,} of {job.settings.replicas:,} replicas" * (played > 0)
        if summary is not None:
            aside = set_aside(folder)
            news = f"played again: {changed}; the results before are in {aside.name}"
        clear(folder, keep=run.saved["parts"])
        if started is not None:
            started(news)
        return run.play(progress=progress)


class _Run:
    """One run in a folder that this process has claimed."""

    def __init__(
        self,
        job: Job,
        environment: Environment,
        folder: Path,
        now: Mapping[str, Any],
        callbacks: Sequence[Callback],
    ) -> None:
        self.policy, self.metrics, self.identity = job.policy, job.metrics, now
        self.environment, self.folder, self.callbacks = environment, folder, callbacks
        self.rounds = job.settings.rounds or environment.rounds
        self.settings = replace(job.settings, rounds=self.rounds)
        note_settings(job.policy, environment, self.rounds, job.settings.picks)
        unit = environment.unit if isinstance(environment, Table) else None
        self.record = Record(self.rounds, environment.group_names, self.metrics, unit)
        sizes = {"places": environment.places, "features": environment.features}
        self.batches = replica_batches(self.settings.replicas, rounds=self.rounds, **sizes)
        parts = {"policy": self.policy.describe(), "environment": registry.describe(environment)}
        self.config = {**parts, **asdict(self.settings)}
        del self.config["resume"]
        # the number of finished batches, their seconds, and the hashes of their Parquet files
        self.saved: dict[str, Any] = {"batches": 0, "seconds": 0.0, "parts": {}}
        if (folder / CHECKPOINT).exists():
            self.saved = self._load(folder / CHECKPOINT)
        # made before anything is written, since it raises an error if the run cannot be played
        self.ready = [self._engine(self.batches[self.saved["batches"]])]

    def _load(self, path: Path) -> dict[str, Any]:
        """Returns the state of an interrupted run, and puts its results into the record."""
        try:
            saved: dict[str, Any] = state.read(path)
            different = differences(saved["identity"], summaries.continued(self.identity))
            why = f"belongs to a different run: {'; '.join(different)}"
        except (ValueError, KeyError, TypeError) as error:
            different, why = ["damaged"], f"is not a complete checkpoint ({error})"
        if different:
            raise FairbanditError(
                f"{path} {why}. Restore the earlier state to continue from the checkpoint, or "
                "remove it to start this run over in its folder; resume=false starts in a new "
                "folder and leaves this folder unchanged"
            )
        self.record.results = {(key, group): values for key, group, values in saved.pop("results")}
        return saved

    def play(self, *, progress: bool) -> dict[str, Any]:
        """Plays the unfinished batches, and returns the summary."""
        began, first = time.perf_counter() - self.saved["seconds"], self.saved["batches"]
        files = write_rewards(self.environment, self.folder)
        total = self.rounds * self.settings.replicas
        bar = progress_bar(self.policy.name, total, shown=progress)
        for callback in self.callbacks:
            callback.on_start(dict(dotted(self.config)))
        with closing(self._events(drawn=first > 0)) as events, bar as advance:
            advance(self.rounds * self.batches[first].start)
            for index in range(first, len(self.batches)):
                if index > first:
                    self.saved |= {"batches": index, "seconds": time.perf_counter() - began}
                    self._save()
                self._play(index, events, advance)
        picks = self.settings.picks
        note_rare_groups(self.policy, self.environment, self.record, self.rounds, picks)
        note_unknown(self.policy, self.record)
        if len(self.batches) > 1:  # TensorBoard has shown only the curves of the first batch
            clear(self.folder, keep=self.saved["parts"])
            self._events(drawn=True).close()
        for name, table in zip((FINALS, CURVES), self.record.tables(), strict=True):
            files[name] = write_table(self.folder / name, table)
        files |= {f"{ROUNDS}/{name}": digest for name, digest in self.saved["parts"].items()}
        summary = summaries.summarise(
            *(self.config, self.record),
            seconds=time.perf_counter() - began,
            files=files,
            identity=self.identity,
            group_feature=self._group_feature(),
        )
        summaries.write(summary, self.folder)
        (self.folder / CHECKPOINT).unlink(missing_ok=True)
        for callback in self.callbacks:
            callback.on_end(Run(self.folder, summary))
        return summary

    def _save(self) -> None:
        results = [[*key, values] for key, values in self.record.results.items()]
        same = summaries.continued(self.identity)
        contents = {**self.saved, "results": results, "identity": same}
        state.write(state.packed(contents), self.folder / CHECKPOINT)

    def _group_feature(self) -> bool | None:
        with self.environment.bound(Streams(self.settings.seed, [0])):
            count = max(_CANDIDATES // self.environment.places, 1)
            pools = self.environment.pools(1, min(count, self.rounds))
        return holds_group(pools.contexts.flatten(0, 2).numpy(), pools.groups.flatten().numpy())

    def _engine(self, replicas: Sequence[int]) -> Engine:
        keys = ("seed", "device", "picks", "delay", "delay_law")
        options: dict[str, Any] = {key: getattr(self.settings, key) for key in keys}
        options |= {"rounds": self.rounds, "replicas": replicas, "metrics": self.metrics}
        return Engine(self.policy, self.environment, **options)

    def _events(self, *, drawn: bool) -> EventWriter:
        """Begins an event file, with the curves of the finished batches if they are drawn."""
        events = EventWriter(self.folder)
        events.write(config_text(summaries.finite(self.config)))
        groups = [group for _, group in self.record.steps if group is not None]
        events.write(layout(tuple(self.metrics), str(self.config["environment"]["name"]), groups))
        if drawn:
            events.add(self.record.curves())
        return events

    def _play(self, index: int, events: EventWriter, advance: Callable[[int], None]) -> None:
        replicas = self.batches[index]
        engine = self.ready.pop() if self.ready else self._engine(replicas)
        rounds = within(self.folder, ROUNDS)
        log = RoundLog(rounds, replicas, tuple(self.metrics), self.settings.picks)
        self.record.start(len(replicas))
        for piece in engine.play():
            played = _on_cpu(piece)
            log.add(played)
            part = self.record.add(played)
            advance(played.actions.shape[:2].numel())
            if index == 0:
                events.add(part)
                for callback in self.callbacks:
                    callback.on_rounds(played.last, self.record.means())
        log.finish()
        self.record.finish()
        self.saved["parts"] |= log.written


def replica_batches(replicas: int, *, rounds: int, places: int, features: int) -> list[range]:
    """Divides replicas into batches of nearly equal size; returns the replica numbers of each.

    The rule assumes that a replica keeps every candidate it has seen, and the pools of one piece of
    `CHUNK_ROUNDS` rounds: (T + CHUNK_ROUNDS)·K·(d + 8) numbers of 8 bytes. It does not depend on
    the machine, so a config always gives the same batches and therefore the same files.

    >>> replica_batches(5, rounds=200_000, places=10, features=40)
    [range(0, 1), range(1, 2), range(2, 3), range(3, 4), range(4, 5)]
    """
    each = (rounds + CHUNK_ROUNDS) * places * (features + _EXTRA) * 8
    most = max(1, BUDGET // each)
    count = -(-replicas // most)
    edges = [replicas * index // count for index in range(count + 1)]
    return [range(low, high) for low, high in pairwise(edges)]


def _on_cpu(played: Played) -> Played:
    tensors = {key: value for key, value in vars(played).items() if isinstance(value, Tensor)}
    moved: dict[str, Any] = {key: value.cpu() for key, value in tensors.items()}
    moved["metrics"] = {column: value.cpu() for column, value in played.metrics.items()}
    return replace(played, **moved)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)

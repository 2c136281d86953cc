"""Run statistics: what summaries, curves and TensorBoard need, updated while a run is played."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbandit.maths.moments import Floats, merged, moments
from fairbandit.metrics import Metric, Played, RunningReduction
from fairbandit.run.curves import RATE, Curve, sampled_rounds
from fairbandit.streams import GRID

MAX_GROUPS = 8
"""The largest number of groups whose selection rates have curves."""


class BatchTotals:
    """The sums of one batch of B replicas over rounds.

    Args:
        replicas: B.
        groups: the number of groups, G.
        metrics: the metrics by their columns.

    Attributes:
        metrics: the metrics so far, by column.
        selected: the picks of each group, (B, G) int64.
        received: the candidates of each group, (B, G) int64.
    """

    def __init__(self, replicas: int, groups: int, metrics: Mapping[str, Metric]) -> None:
        self.metrics = {
            column: RunningReduction(metric.reduce, replicas) for column, metric in metrics.items()
        }
        self.selected, self.received = torch.zeros(2, replicas, groups, dtype=torch.int64)

    @property
    def selection_rate(self) -> Tensor:
        """Selected ÷ received, (B, G); NaN where none was received."""
        return self.selected.double() / self.received.double()  # 0/0 is NaN

    def state(self) -> dict[str, Any]:
        """All sums, as plain data and tensors."""
        metrics = {column: running.state() for column, running in self.metrics.items()}
        return {"metrics": metrics, "selected": self.selected, "received": self.received}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continues from a state that `state` gave, of as many replicas."""
        for column, running in self.metrics.items():
            running.load_state(state["metrics"][column])
        self.selected, self.received = state["selected"], state["received"]


class Samples:
    """Count, mean and standard deviation over the replicas so far, at some rounds.

    Args:
        rounds: the rounds, ascending.
    """

    def __init__(self, rounds: Sequence[int] | np.ndarray[Any, Any]) -> None:
        self.rounds = np.asarray(rounds, np.int64)
        self.moments = np.zeros((3, len(self.rounds)))
        self.moments[1:] = np.nan

    def add(self, first: int, values: Tensor) -> None:
        """Adds the values of a batch of replicas in consecutive rounds, (B, N) from round first."""
        low, high = np.searchsorted(self.rounds, [first, first + values.shape[1]])
        if low < high:
            sample = values[:, torch.from_numpy(self.rounds[low:high] - first)]
            here = self.moments[:, low:high]
            both = np.stack([here, moments(sample.numpy())], axis=1)
            self.moments[:, low:high] = merged(*both)

    def curve(self, final: Floats) -> Curve:
        """Returns the curve, with the final value of each replica."""
        count, mean, std = self.moments
        return Curve(self.rounds, count, mean, std, final)


class RunStatistics:
    """The totals of every batch of replicas, and curves over the batches so far.

    Candidates received are known at the ends of pieces of `GRID` rounds, so selection rates are
    sampled at the first such end from each sampled round on.

    Args:
        rounds: T.
        group_names: the groups' names, in order of their codes.
        metrics: all metrics of the run, by column.
    """

    def __init__(
        self, rounds: int, group_names: Sequence[str], metrics: Mapping[str, Metric]
    ) -> None:
        self.group_names, self.metrics = tuple(group_names), metrics
        steps = sampled_rounds(rounds)
        ends = np.unique(np.minimum(-(-steps // GRID) * GRID, rounds))
        self._curves = {column: Samples(steps) for column in metrics}
        self._rates = {name: Samples(ends) for name in self.groups_drawn}
        self._batches: list[BatchTotals] = []

    @property
    def groups_drawn(self) -> tuple[str, ...]:
        """The names of the groups whose selection rates have curves: of few groups, all."""
        return self.group_names if len(self.group_names) <= MAX_GROUPS else ()

    def start(self, replicas: int) -> None:
        """Begins a batch of so many replicas."""
        self._batches.append(BatchTotals(replicas, len(self.group_names), self.metrics))

    def add(self, played: Played) -> dict[str, float]:
        """Adds the next piece of rounds of the current batch.

        Returns:
            The mean over the batch's replicas of each metric after the last of these rounds.
        """
        now = self._batches[-1]
        means = {}
        for column, samples in self._curves.items():
            running = now.metrics[column].add(played.metrics[column])
            samples.add(played.first, running)
            means[column] = float(running[:, -1].nanmean())
        picked = torch.nn.functional.one_hot(played.groups, len(self.group_names))
        now.selected += picked.sum(1)
        now.received += played.received
        rates = now.selection_rate
        for code, samples in enumerate(self._rates.values()):
            samples.add(played.last, rates[:, code, None])
        return means

    def curves(self) -> dict[str, Curve]:
        """Returns the curves over all batches so far by their names, as `curves.parquet` has them.

        Where the first batch is still being played, later rounds have a count of 0.
        """
        rates = self.by_group(RATE).numpy()
        found = {
            column: samples.curve(self.metric(column).numpy())
            for column, samples in self._curves.items()
        }
        return found | {
            f"{RATE}/{name}": samples.curve(rates[:, code])
            for code, (name, samples) in enumerate(self._rates.items())
        }

    def metric(self, column: str) -> Tensor:
        """Returns a metric of every replica of all batches, reduced over the rounds, (B,)."""
        return torch.cat([batch.metrics[column].value for batch in self._batches])

    def by_group(self, quantity: str) -> Tensor:
        """Returns an attribute of `BatchTotals`, such as `selected`, of all replicas, (B, G)."""
        return torch.cat([getattr(batch, quantity) for batch in self._batches])

    def state(self) -> dict[str, Any]:
        """All sums and curves so far, as plain data and tensors."""
        return {
            "samples": [torch.from_numpy(one.moments) for one in self._samples],
            "batches": [batch.state() for batch in self._batches],
        }

    def load_state(self, state: Mapping[str, Any], sizes: Sequence[int]) -> None:
        """Continues from a state that `state` gave.

        Args:
            state: the state.
            sizes: the number of replicas of each batch so far.
        """
        for samples, values in zip(self._samples, state["samples"], strict=True):
            samples.moments = values.numpy().copy()
        self._batches = []
        for size, batch in zip(sizes, state["batches"], strict=True):
            self.start(size)
            self._batches[-1].load_state(batch)

    @property
    def _samples(self) -> list[Samples]:
        return [*self._curves.values(), *self._rates.values()]

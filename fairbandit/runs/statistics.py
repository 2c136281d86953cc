"""Run statistics for summaries, curves and TensorBoard, updated while a run is played."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot, pad

from fairbandit.files.formats import fitted
from fairbandit.metrics import Metric, Played, RunningReduction
from fairbandit.runs.curves import RATE, Curve, sampled
from fairbandit.runs.moments import merged_moments, moments

_TOTALS = ("finals", "selected", "received")


class Samples:
    """Count, mean and standard deviation over the replicas so far, at given ascending rounds."""

    def __init__(self, rounds: NDArray[np.int64]) -> None:
        self.rounds = rounds
        self.moments = np.zeros((3, len(rounds)))
        self.moments[1:] = np.nan

    def add(self, first: int, values: Tensor) -> None:
        """Adds a batch's values, (B, N), in N consecutive rounds that begin with `first`."""
        low, high = np.searchsorted(self.rounds, [first, first + values.shape[1]])
        if low < high:
            sample = values[:, torch.from_numpy(self.rounds[low:high] - first)]
            both = np.stack([self.moments[:, low:high], moments(sample.numpy())], axis=1)
            self.moments[:, low:high] = merged_moments(*both)


class RunStatistics:
    """The totals of the R replicas so far, and curves over these replicas.

    Attributes:
        finals: each metric of every replica, reduced over its rounds so far, (R,).
        selected: the picks of each group, (R, G) int64.
        received: the candidates of each group, (R, G) int64.
        groups_drawn: the groups whose selection rates have curves.
    """

    def __init__(
        self, rounds: int, group_names: Sequence[str], metrics: Mapping[str, Metric]
    ) -> None:
        self.group_names, self.metrics = tuple(group_names), metrics
        self.finals = {column: torch.zeros(0, dtype=torch.float64) for column in metrics}
        self.selected, self.received = torch.zeros(2, 0, len(group_names), dtype=torch.int64)
        steps = sampled(rounds, metrics, group_names)
        self._samples = {name: Samples(sampled_at) for name, sampled_at in steps.items()}
        self.groups_drawn = tuple(name for name in group_names if f"{RATE}/{name}" in steps)
        self._running: dict[str, RunningReduction] = {}

    @property
    def selection_rate(self) -> Tensor:
        """Selected ÷ received, (R, G); NaN where no candidate was received."""
        return self.selected.double() / self.received

    def start(self, replicas: int) -> None:
        """Begins a batch with the given number of replicas."""
        rows = (0, 0, 0, replicas)  # below the rows of earlier batches
        self.selected, self.received = pad(self.selected, rows), pad(self.received, rows)
        for column, metric in self.metrics.items():
            self._running[column] = RunningReduction(metric.reduce, replicas)
            self.finals[column] = pad(self.finals[column], (0, replicas))

    def add(self, played: Played) -> dict[str, float]:
        """Adds a piece of rounds of the current batch, and returns the means over its replicas."""
        batch = slice(-len(played.groups), None)
        means = {}
        for column in self.metrics:
            samples = self._samples[column]
            running = self._running[column].add(played.metrics[column])
            samples.add(played.first, running)
            self.finals[column][batch] = running[:, -1]
            means[column] = float(running[:, -1].nanmean())
        picked = one_hot(played.groups.flatten(1) + 1, len(self.group_names) + 1)
        self.selected[batch] += picked.sum(1)[:, 1:]  # without empty slots
        self.received[batch] += played.received
        rates = self.selection_rate[batch]
        for code, name in enumerate(self.groups_drawn):
            self._samples[f"{RATE}/{name}"].add(played.last, rates[:, code, None])
        return means

    def curves(self) -> dict[str, Curve]:
        """Returns the curves so far by their names; rounds not played yet have a count of 0."""
        rates = zip(self.groups_drawn, self.selection_rate.unbind(1), strict=False)
        finals = {**self.finals, **{f"{RATE}/{name}": rate for name, rate in rates}}
        curves = {}
        for (name, final), samples in zip(finals.items(), self._samples.values(), strict=True):
            count, mean, std = samples.moments
            curves[name] = Curve(samples.rounds, count, mean, std, final.numpy())
        return curves

    def state(self) -> dict[str, Any]:
        """Returns the totals and curves of the finished batches, as tensors."""
        return {
            "samples": [torch.from_numpy(sample.moments) for sample in self._samples.values()],
            **{name: getattr(self, name) for name in _TOTALS},
        }

    def load_state(self, state: Mapping[str, Any], replicas: int) -> None:
        """Continues from a state that `state` returned after so many replicas.

        Raises:
            ValueError: the state does not fit; other errors if it lacks an entry.
        """
        self.start(replicas)
        read = fitted(state, self.state())
        for name in _TOTALS:
            setattr(self, name, read[name])
        for samples, values in zip(self._samples.values(), read["samples"], strict=True):
            samples.moments = values.numpy()

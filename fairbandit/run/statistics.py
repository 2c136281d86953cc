"""Run statistics: what summaries and TensorBoard's curves need, updated while a run is played."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbandit.maths.checks import length, like
from fairbandit.maths.moments import Moments
from fairbandit.metrics import REGRETS, Metric, Played, Reduce, RunningReduction
from fairbandit.run.tensorboard import GAP, INSTANT, MAX_GROUPS, RATE, tag_of
from fairbandit.streams import GRID

STEPS = 1000
"""The largest number of points of a curve; TensorBoard keeps no more for a tag."""

WINDOWS = 50
"""The largest number of windows of rounds over which the instantaneous regret is averaged."""


def log_spaced(rounds: int, points: int = STEPS) -> list[int]:
    """Returns the rounds at which curves are sampled: all if few, else log-spaced ones from 1 to T.

    >>> log_spaced(5), log_spaced(1000, points=4)
    ([1, 2, 3, 4, 5], [1, 10, 100, 1000])
    """
    if rounds <= points:
        return list(range(1, rounds + 1))
    spaced = np.geomspace(1, rounds, points).round().astype(int)
    return [int(step) for step in np.unique(spaced)]


class BatchTotals:
    """The sums of one batch of B replicas over rounds.

    Args:
        replicas: B.
        groups: the number of groups, G.
        reductions: how each metric is reduced, by its column.

    Attributes:
        metrics: the metrics so far, by column.
        selected: the picks of each group, (B, G) int64.
        received: the candidates of each group, (B, G) int64.
    """

    def __init__(self, replicas: int, groups: int, reductions: Mapping[str, Reduce]) -> None:
        self.metrics = {
            column: RunningReduction(reduce, replicas) for column, reduce in reductions.items()
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
        """Continues from a state that `state` gave, of as many replicas.

        Raises:
            FairbanditError: a state of other metrics or groups.
        """
        for column, running in self.metrics.items():
            running.load_state(state["metrics"][column])
        self.selected = like("picks of the groups", state["selected"], self.selected)
        self.received = like("candidates of the groups", state["received"], self.received)


class RunStatistics:
    """The totals of every batch of replicas, and curves over the batches so far.

    Metrics are sampled at log-spaced rounds. Candidates received are known at the ends of pieces
    of `GRID` rounds, so selection rates and the parity gap, the greatest rate less the least, are
    sampled at the first such end from each log-spaced round on. Instantaneous regrets are means
    over the rounds between two of at most `WINDOWS` log-spaced ones.

    Args:
        rounds: T.
        group_names: the groups' names, in order of their codes.
        metrics: the metrics beside both regrets, by column.
    """

    def __init__(
        self,
        rounds: int,
        group_names: Sequence[str],
        metrics: Mapping[str, Metric] = MappingProxyType({}),
    ) -> None:
        self.group_names, self.metrics = tuple(group_names), metrics
        self._reductions: dict[str, Reduce] = dict.fromkeys(sorted(REGRETS), "sum")
        self._reductions |= {column: metric.reduce for column, metric in metrics.items()}
        self._steps = log_spaced(rounds)
        self._ends = sorted({min(-(-step // GRID) * GRID, rounds) for step in self._steps})
        windows = np.unique(np.searchsorted(self._steps, log_spaced(rounds, WINDOWS))).tolist()
        self._windows = dict(zip(windows, [None, *windows[:-1]], strict=True))
        self._curves = {column: Moments(len(self._steps)) for column in self._reductions}
        self._rates = Moments(len(self._ends), len(self.group_names))
        self._batches: list[BatchTotals] = []

    @property
    def groups_drawn(self) -> tuple[str, ...]:
        """The names of the groups whose selection rates have curves: of few groups, all."""
        return self.group_names if len(self.group_names) <= MAX_GROUPS else ()

    def start(self, replicas: int) -> None:
        """Begins a batch of so many replicas."""
        self._batches.append(BatchTotals(replicas, len(self.group_names), self._reductions))

    def add(self, played: Played) -> None:
        """Adds the next piece of rounds of the current batch."""
        now = self._batches[-1]
        first, last = played.first, played.last
        here = _between(self._steps, first, last)
        sampled = [step - first for step in self._steps[here]]
        for column, curve in self._curves.items():
            running = now.metrics[column].add(played.metrics[column])
            curve.add(running[:, sampled], here)
        picked = torch.nn.functional.one_hot(played.groups, len(self.group_names))
        now.selected += picked.sum(1)
        now.received += played.received
        ends = _between(self._ends, last, last)
        if ends.start < ends.stop:
            self._rates.add(now.selection_rate[:, None], ends)

    def points(self, first: int, last: int) -> Iterator[tuple[int, dict[str, float]]]:
        """Gives the curves' points in rounds first … last, over all batches added so far.

        `first` begins a piece of rounds, and `last` ends one.

        Yields:
            Round, and values by tag: mean, and mean ∓ std over replicas as lower and upper. An
            unknown quantity has no value.
        """
        here, ends = _between(self._steps, first, last), _between(self._ends, first, last)
        values: dict[int, dict[str, float]] = {step: {} for step in self._steps[here]}
        for column, curve in self._curves.items():
            means, stds = curve.mean[here], curve.std[here].nan_to_num(nan=0.0)
            for step, mean, std in zip(values, means.tolist(), stds.tolist(), strict=True):
                if mean == mean:
                    tag = tag_of(column)
                    values[step][f"{tag}/mean"] = mean
                    values[step][f"{tag}/lower"] = mean - std
                    values[step][f"{tag}/upper"] = mean + std
        for index in self._windows.keys() & range(here.start, here.stop):
            values[self._steps[index]].update(self._instantaneous(index))
        for end, rates in zip(self._ends[ends], self._rates.mean[ends].tolist(), strict=True):
            values.setdefault(end, {}).update(self._shares(rates))
        yield from sorted(values.items())

    def _instantaneous(self, index: int) -> dict[str, float]:
        """The mean regret of a round in the window that ends at a step."""
        before = self._windows[index]
        rounds = self._steps[index] - (0 if before is None else self._steps[before])
        found = {}
        for column in sorted(REGRETS):
            mean = self._curves[column].mean
            rise = float(mean[index] - (0 if before is None else mean[before]))
            if rise == rise:
                found[f"{INSTANT}/{column.removesuffix('_regret')}"] = rise / rounds
        return found

    def _shares(self, rates: Sequence[float]) -> dict[str, float]:
        """Selection rates by tag, and their gap; a group not yet received (NaN) has none."""
        known = {n: rate for n, rate in zip(self.group_names, rates, strict=True) if rate == rate}
        gap = {GAP: max(known.values()) - min(known.values())} if known else {}
        return {f"{RATE}/{n}": rate for n, rate in known.items() if n in self.groups_drawn} | gap

    def means(self) -> dict[str, float]:
        """Returns the mean over the last batch's replicas of each metric so far."""
        metrics = self._batches[-1].metrics
        return {column: float(running.value.mean()) for column, running in metrics.items()}

    def metric(self, column: str) -> Tensor:
        """Returns a metric of every replica of all batches, reduced over the rounds, (B,)."""
        return torch.cat([batch.metrics[column].value for batch in self._batches])

    def by_group(self, quantity: str) -> Tensor:
        """Returns an attribute of `BatchTotals`, such as `selected`, of all replicas, (B, G)."""
        return torch.cat([getattr(batch, quantity) for batch in self._batches])

    def state(self) -> dict[str, Any]:
        """All sums and curves so far, as plain data and tensors."""
        return {
            "curves": {column: curve.state() for column, curve in self._curves.items()},
            "rates": self._rates.state(),
            "batches": [batch.state() for batch in self._batches],
        }

    def load_state(self, state: Mapping[str, Any], sizes: Sequence[int]) -> None:
        """Continues from a state that `state` gave.

        Args:
            state: the state.
            sizes: the number of replicas of each batch so far.

        Raises:
            FairbanditError: a state of other groups, rounds, metrics or batches.
        """
        for column, curve in self._curves.items():
            curve.load_state(state["curves"][column])
        self._rates.load_state(state["rates"])
        self._batches = []
        batches = length("batches of the statistics", state["batches"], len(sizes))
        for size, batch in zip(sizes, batches, strict=True):
            self.start(size)
            self._batches[-1].load_state(batch)


def _between(steps: Sequence[int], first: int, last: int) -> slice:
    """Returns where a sorted sequence lies within first … last."""
    low, high = np.searchsorted(steps, [first, last + 1])
    return slice(int(low), int(high))

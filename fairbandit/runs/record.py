"""The results of a run: measures of each replica at the end of the run, and curves over its rounds.

`finals.parquet` is a tidy table with the columns `replica`, `measure`, `group` and `value`. A
measure of the whole run has no group: each metric after the last round and, for a table whose
rewards are standardised, `cost_per_pick`. The measures of a group are in `BY_GROUP`. Those after
`share` are means over the group's picks, and NaN in a replica without such picks.
`curves.parquet` is the same with a column `round`: each metric over rounds 1 … t, and the
selection rates of up to `MAX_GROUPS` groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairbandit.metrics import Metric, Played, RunningReduction
from fairbandit.runs.intervals import Floats, moments
from fairbandit.runs.settings import BY_GROUP, COST, IN_UNIT
from fairbandit.streams import CHUNK_ROUNDS

RATE = "selection_rate"
"""The measure of a group that has a curve."""

EVEN, LOG = 300, 600
"""The largest numbers of evenly spaced and of log-spaced rounds of a curve; TensorBoard keeps at
most 1,000 points of a tag."""

MAX_GROUPS = 8
"""The largest number of groups whose selection rates have curves."""

Key = tuple[str, str | None]
"""A measure and its group."""

SCHEMA = pa.schema(
    [
        *(("replica", pa.int64()), ("measure", pa.string()), ("group", pa.string())),
        ("value", pa.float64()),
    ]
)
"""The columns of finals."""

CURVES_SCHEMA = SCHEMA.insert(3, pa.field("round", pa.int64()))
"""The columns of curves."""


@dataclass(frozen=True)
class Curve:
    """A measure of B replicas over rounds 1 … t, for some rounds t.

    Attributes:
        rounds: the rounds t, ascending, (n,).
        values: the values, (B, n); NaN where not known.
    """

    rounds: NDArray[np.int64]
    values: Floats

    @cached_property
    def moments(self) -> tuple[Floats, Floats, Floats]:
        """The count, mean and standard deviation over replicas, (n,) each."""
        return moments(self.values)


def sampled_rounds(rounds: int) -> NDArray[np.int64]:
    """Returns the rounds at which curves are sampled, evenly spaced and log-spaced from 1 to T."""
    if rounds <= LOG:
        return np.arange(1, rounds + 1)
    spaced = np.linspace(1, rounds, EVEN), np.geomspace(1, rounds, LOG)
    return np.unique(np.concatenate(spaced).round().astype(np.int64))


def sampled(
    rounds: int, metrics: Iterable[str], groups: Sequence[str]
) -> dict[Key, NDArray[np.int64]]:
    """Returns the rounds of every curve of a run; groups only up to `MAX_GROUPS`.

    The numbers of received candidates are known only at the ends of pieces of `CHUNK_ROUNDS`
    rounds, so selection rates are sampled at the first such end at or after each sampled round.
    """
    steps = sampled_rounds(rounds)
    ends = np.unique(np.minimum(-(-steps // CHUNK_ROUNDS) * CHUNK_ROUNDS, rounds))
    curves: dict[Key, NDArray[np.int64]] = {(column, None): steps for column in metrics}
    return curves | {(RATE, name): ends for name in groups if len(groups) <= MAX_GROUPS}


class Record:
    """Finals and curves of the replicas so far, updated while a run is played.

    Args:
        rounds: T.
        group_names: the groups, in order of their codes.
        metrics: the metrics by column.
        unit: the `std` and `mean` of the reward's column, if rewards are standardised.

    Attributes:
        results: the finished batches, by measure and group, (R, n) each: a curve at its rounds, or
            a measure after the last round.
    """

    def __init__(
        self,
        rounds: int,
        group_names: Sequence[str],
        metrics: Mapping[str, Metric],
        unit: Mapping[str, Any] | None = None,
    ) -> None:
        self.group_names, self.metrics, self.unit = tuple(group_names), metrics, unit
        self.steps = sampled(rounds, metrics, self.group_names)
        self.results: dict[Key, Tensor] = {}

    def start(self, replicas: int) -> None:
        """Begins a batch with the given number of replicas."""
        kinds = {column: metric.reduce for column, metric in self.metrics.items()}
        self._running = {column: RunningReduction(kinds[column], replicas) for column in kinds}
        self._pieces: dict[Key, list[Tensor]] = {key: [] for key in self.steps}
        self._ends = dict[str, Tensor]()
        # sums over the picks of each group; the first column is for empty slots
        self._sums = torch.zeros(5, replicas, len(self.group_names) + 1, dtype=torch.float64)
        self._received = torch.zeros(replicas, len(self.group_names), dtype=torch.int64)

    def add(self, played: Played) -> dict[Key, Curve]:
        """Adds a piece of rounds of the current batch; returns its part of the curves."""
        self._add_groups(played)
        rates, running = self._sums[0, :, 1:] / self._received, dict[str, Tensor]()
        for column, reduction in self._running.items():
            running[column] = reduction.add(played.metrics[column])
            self._ends[column] = running[column][:, -1]
        part = dict[Key, Curve]()
        for (measure, group), steps in self.steps.items():
            inside = steps[(steps >= played.first) & (steps <= played.last)]
            if group is None:
                values = running[measure][:, torch.from_numpy(inside - played.first)]
            else:
                values = rates[:, self.group_names.index(group), None][:, : len(inside)]
            self._pieces[measure, group].append(values)
            part[measure, group] = Curve(inside, values.numpy())
        return part

    def _add_groups(self, played: Played) -> None:
        replicas, rounds = played.actions.shape[:2]
        codes = played.groups.view(replicas, rounds, -1) + 1
        picked = (codes > 0).double()
        sums = [picked, played.rewards, played.ranks]
        for merit, regret in (
            (played.ranks, played.fair_regret),
            (played.expected, played.standard_regret),
        ):
            own = merit.view_as(codes).masked_fill(codes == 0, 0)
            best = (regret + own.sum(2)) / picked.sum(2)  # the mean merit of the m best
            sums.append(best[..., None] - own)
        for total, values in zip(self._sums, sums, strict=True):
            total.scatter_add_(1, codes.flatten(1), values.reshape(replicas, -1).double())
        self._received += played.received

    def means(self) -> dict[str, float]:
        """Returns the mean of each metric so far over the replicas of the current batch."""
        return {column: float(end.nanmean()) for column, end in self._ends.items()}

    def finish(self) -> None:
        """Ends the current batch."""
        picked = self._sums[0, :, 1:]
        found = {key: torch.cat(pieces, 1) for key, pieces in self._pieces.items()}
        reward, rank, fair, standard = self._sums[1:, :, 1:] / picked
        rates = picked / self._received, picked / picked.sum(1, keepdim=True)
        columns = [picked, self._received.double(), *rates, reward, rank, fair, standard]
        if self.unit:
            std, mean = self.unit["std"], self.unit.get("mean", torch.nan)
            columns += [mean + std * reward, std * standard]
            cost = self._ends["standard_regret"] * (std / picked.sum(1).clamp(min=1))
            found[COST, None] = cost[:, None]
        for name, by_group in zip(BY_GROUP, columns, strict=False):
            if IN_UNIT.get(name, "") in {"", *(self.unit or ())}:
                for code, group in enumerate(self.group_names):
                    found.setdefault((name, group), by_group[:, code, None])  # a rate has a curve
        before = self.results
        self.results = {k: torch.cat([before[k], v]) if before else v for k, v in found.items()}

    def final(self, measure: str, group: str | None = None) -> Tensor:
        """Returns a measure after the last round, (R,)."""
        return self.results[measure, group][:, -1]

    def by_group(self, measure: str) -> Tensor:
        """Returns a measure of each group after the last round, (R, G)."""
        return torch.stack([self.final(measure, group) for group in self.group_names], 1)

    def drawn(self) -> dict[Key, Curve]:
        """Returns the curves of the finished batches."""
        return {key: Curve(at, self.results[key].numpy()) for key, at in self.steps.items()}

    def tables(self) -> tuple[pa.Table, pa.Table]:
        """Returns the tidy tables of the finals and the curves."""
        order, end = [*self.metrics, COST, *BY_GROUP], np.zeros(1, np.int64)
        keys = sorted(self.results, key=lambda key: order.index(key[0]))
        finals = {key: Curve(end, self.results[key][:, -1:].numpy()) for key in keys}
        return _tidy(finals, SCHEMA), _tidy(self.drawn(), CURVES_SCHEMA)


def _tidy(curves: Mapping[Key, Curve], schema: pa.Schema) -> pa.Table:
    """Returns a row for each value of some curves: by measure, replica and round."""
    tables = []
    for (measure, group), curve in curves.items():
        replicas, points = curve.values.shape
        columns = {
            "replica": np.arange(replicas).repeat(points),
            "measure": pa.repeat(measure, curve.values.size),
            "group": pa.repeat(pa.scalar(group, pa.string()), curve.values.size),
            "round": np.tile(curve.rounds, replicas),
            "value": pa.array(curve.values.ravel(), from_pandas=True),
        }
        tables.append(pa.table({name: columns[name] for name in schema.names}, schema))
    return pa.concat_tables(tables).combine_chunks()

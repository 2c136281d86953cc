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

from fairbandit.files.formats import fitted
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


def measured(metrics: Iterable[str], groups: Sequence[str], unit: Any) -> list[Key]:
    """Returns the measures of a run in the order of its finals."""
    whole = [*metrics, COST] if unit else [*metrics]
    by_group = [name for name in BY_GROUP if IN_UNIT.get(name, "") in {"", *(unit or ())}]
    return [*((name, None) for name in whole), *((m, group) for m in by_group for group in groups)]


def index_of(keys: Mapping[Key, NDArray[np.int64]], replicas: int, schema: pa.Schema) -> pa.Table:
    """Returns the columns of finals or curves except the values: by measure, replica and round."""
    sizes = [replicas * len(at) for at in keys.values()]
    repeated = [np.repeat(np.array(part, object), sizes) for part in zip(*keys, strict=True)]
    columns = {
        "replica": np.concatenate([np.arange(replicas).repeat(len(at)) for at in keys.values()]),
        "measure": pa.array(repeated[0], pa.string()),
        "group": pa.array(repeated[1], pa.string()),
        "round": np.concatenate([np.tile(at, replicas) for at in keys.values()]),
    }
    names = [name for name in schema.names if name != "value"]
    return pa.table({name: columns[name] for name in names})


class Record:
    """Finals and curves of the replicas so far, updated while a run is played.

    Args:
        rounds: T.
        group_names: the groups, in order of their codes.
        metrics: the metrics by column.
        unit: the `std` and `mean` of the reward's column, if rewards are standardised.
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
        self.keys = measured(metrics, self.group_names, unit)
        self._values = torch.zeros(0, len(self.keys), dtype=torch.float64)
        self._curves = {key: self._none(len(at)) for key, at in self.steps.items()}

    @staticmethod
    def _none(width: int) -> Tensor:
        return torch.zeros(0, width, dtype=torch.float64)

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
        for column in self.metrics:
            running = self._running[column].add(played.metrics[column])
            self._ends[column] = running[:, -1]
            steps = self.steps[column, None]
            inside = steps[(steps >= played.first) & (steps <= played.last)]
            self._pieces[column, None].append(running[:, torch.from_numpy(inside - played.first)])
        self._add_groups(played)
        self._received += played.received
        rates = self._sums[0, :, 1:] / self._received
        part = dict[Key, Curve]()
        for key, steps in self.steps.items():
            inside = steps[(steps >= played.first) & (steps <= played.last)]
            if key[1] is not None:
                code = self.group_names.index(key[1])
                self._pieces[key].append(rates[:, code, None][:, : len(inside)])
            part[key] = Curve(inside, self._pieces[key][-1].numpy())
        return part

    def _add_groups(self, played: Played) -> None:
        """Adds the number of picks of each group, and the sums of their measures."""
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

    def means(self) -> dict[str, float]:
        """Returns the mean of each metric so far over the replicas of the current batch."""
        return {column: float(end.nanmean()) for column, end in self._ends.items()}

    def finish(self) -> None:
        """Ends the current batch."""
        picked = self._sums[0, :, 1:]
        reward, rank, fair, standard = self._sums[1:, :, 1:] / picked
        rates = picked / self._received, picked / picked.sum(1, keepdim=True)
        columns = [picked, self._received.double(), *rates, reward, rank, fair, standard]
        whole = list(self._ends.values())
        if self.unit:
            std, mean = self.unit["std"], self.unit.get("mean", torch.nan)
            columns += [mean + std * reward, std * standard]
            whole.append(self._ends["standard_regret"] * (std / picked.sum(1).clamp(min=1)))
        by_name = dict(zip(BY_GROUP, columns, strict=False))
        names = dict.fromkeys(name for name, group in self.keys if group is not None)
        values = torch.cat([torch.stack(whole, 1), *(by_name[name] for name in names)], 1)
        self._values = torch.cat([self._values, values])
        for key, pieces in self._pieces.items():
            self._curves[key] = torch.cat([self._curves[key], torch.cat(pieces, 1)])

    def of(self, name: str) -> Tensor:
        """Returns a measure of each group, (R, G)."""
        return self._values[:, [at for at, key in enumerate(self.keys) if key[0] == name]]

    def final(self, column: str) -> Tensor:
        """Returns a metric at the end, (R,)."""
        return self._values[:, self.keys.index((column, None))]

    def curves(self) -> dict[Key, Curve]:
        """Returns the curves of the finished batches."""
        return {key: Curve(at, self._curves[key].numpy()) for key, at in self.steps.items()}

    def tables(self) -> tuple[pa.Table, pa.Table]:
        """Returns the tidy tables of the finals and the curves."""
        replicas = len(self._values)
        finals = index_of({key: np.zeros(1, np.int64) for key in self.keys}, replicas, SCHEMA)
        curves = index_of(self.steps, replicas, CURVES_SCHEMA)
        values = (values.flatten() for values in self._curves.values())
        whole = self._values.T.flatten(), torch.cat([*values])
        return tuple(
            table.append_column("value", pa.array(column.numpy(), from_pandas=True)).cast(schema)
            for table, column, schema in zip(
                (finals, curves), whole, (SCHEMA, CURVES_SCHEMA), strict=True
            )
        )

    def state(self) -> dict[str, Any]:
        """Returns the results of the finished batches as tensors."""
        return {"values": self._values, "curves": list(self._curves.values())}

    def load_state(self, state: Mapping[str, Any], replicas: int) -> None:
        """Continues from a state that `state` returned after so many replicas.

        Raises:
            ValueError: the state does not fit; other errors if it lacks an entry.
        """
        like = [torch.zeros(replicas, len(at), dtype=torch.float64) for at in self.steps.values()]
        values = torch.zeros(replicas, len(self.keys), dtype=torch.float64)
        read = fitted(state, {"values": values, "curves": like})
        self._values = read["values"]
        self._curves = dict(zip(self.steps, read["curves"], strict=True))

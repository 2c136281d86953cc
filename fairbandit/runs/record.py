"""The results of a run: finals and curves of each replica, and the round log.

`finals.parquet` is a tidy table with the columns `replica`, `measure`, `group` and `value`. The
group is empty for a measure of the whole run: each metric after the last round and, for a table
whose rewards are standardised, `cost_per_pick`. The measures of a group are in `BY_GROUP`. The
measures after `share` are means over the group's picks, and NaN in a replica without such picks.
`curves.parquet` is the same with a column `round`: each metric over rounds 1 … t, and the
selection rates of up to `MAX_GROUPS` groups. The round log has a row for each pick.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairbandit.environments import Environment
from fairbandit.files.files import sha256, written_aside
from fairbandit.metrics import REGRETS, Metric, Played, RunningReduction
from fairbandit.runs.folder import REWARDS
from fairbandit.runs.intervals import Floats, moments
from fairbandit.runs.settings import COST
from fairbandit.streams import CHUNK_ROUNDS

RATE = "selection_rate"
"""The measure of a group that has a curve."""

EVEN, LOG = 300, 600
"""The largest numbers of evenly spaced and of log-spaced rounds of a curve; TensorBoard keeps at
most 1,000 points of a tag."""

MAX_GROUPS = 8
"""The largest number of groups whose selection rates have curves."""

FILE_ROWS = 2**18
"""The approximate number of rows of a file, which are kept in memory until it is written."""

Key = tuple[str, str | None]
"""A measure and its group."""

_TEXTS = [("measure", pa.string()), ("group", pa.string())]
SCHEMA = pa.schema([("replica", pa.int64()), *_TEXTS, ("value", pa.float64())])
CURVES_SCHEMA = SCHEMA.insert(3, pa.field("round", pa.int64()))
_NUMBERS = [(name, pa.float64()) for name in ("value", "density", "cdf")]
REWARDS_SCHEMA = pa.schema([("group", pa.int64()), *_NUMBERS])


@dataclass(frozen=True)
class Curve:
    """A measure of B replicas over rounds 1 … t, for n ascending rounds t; values are (B, n)."""

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


class Record:
    """Finals and curves of the replicas so far, updated while a run is played.

    `results` has the finished batches by measure and group, (R, n) each: a curve at its `steps`, or
    a measure after the last round.
    """

    def __init__(
        self,
        rounds: int,
        groups: Sequence[str],
        metrics: Mapping[str, Metric],
        unit: Mapping[str, Any] | None = None,
    ) -> None:
        self.group_names, self.metrics, self.unit = tuple(groups), metrics, unit
        steps = sampled_rounds(rounds)
        # candidates are counted by pieces, so a rate is sampled at the end of a round's piece
        piece_ends = np.unique(np.minimum(-(-steps // CHUNK_ROUNDS) * CHUNK_ROUNDS, rounds))
        self.steps: dict[Key, NDArray[np.int64]] = {(column, None): steps for column in metrics}
        self.steps |= {(RATE, name): piece_ends for name in groups if len(groups) <= MAX_GROUPS}
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
        rates, values = self._sums[0, :, 1:] / self._received, dict[Key, Tensor]()
        for code, group in enumerate(self.group_names):
            values[RATE, group] = rates[:, [code]].expand(-1, played.actions.shape[1])
        for column, reduction in self._running.items():
            values[column, None] = reduction.add(played.metrics[column])
            self._ends[column] = values[column, None][:, -1]
        part = dict[Key, Curve]()
        for key, steps in self.steps.items():
            inside = steps[(steps >= played.first) & (steps <= played.last)]
            self._pieces[key].append(values[key][:, torch.from_numpy(inside - played.first)])
            part[key] = Curve(inside, self._pieces[key][-1].numpy())
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
            picked_merit = merit.view_as(codes).masked_fill(codes == 0, 0)
            best = (regret + picked_merit.sum(2)) / picked.sum(2)  # the mean merit of the m best
            sums.append(best[..., None] - picked_merit)
        for total, values in zip(self._sums, sums, strict=True):
            total.scatter_add_(1, codes.flatten(1), values.reshape(replicas, -1).double())
        self._received += played.received

    def means(self) -> dict[str, float]:
        """Returns the mean of each metric so far over the replicas of the current batch."""
        return {column: float(end.nanmean()) for column, end in self._ends.items()}

    def finish(self) -> None:
        """Ends the current batch."""
        curves = {key: torch.cat(pieces, 1) for key, pieces in self._pieces.items()}
        ended = {key: curve for key, curve in curves.items() if key[1] is None}
        picked = self._sums[0, :, 1:]
        reward, rank, fair, standard = self._sums[1:, :, 1:] / picked
        by_group = {"selected": picked, "received": self._received.double()}
        by_group |= {RATE: picked / self._received, "share": picked / picked.sum(1, keepdim=True)}
        by_group |= {"reward": reward, "rank": rank}
        by_group |= {"fair_regret_of_pick": fair, "standard_regret_of_pick": standard}
        if self.unit:
            std = self.unit["std"]
            cost = self._ends["standard_regret"] * (std / picked.sum(1).clamp(min=1))
            ended[COST, None] = cost[:, None]
            if "mean" in self.unit:
                by_group["raw_reward"] = self.unit["mean"] + std * reward
            by_group["cost_of_pick"] = std * standard
        for name, values in by_group.items():
            for code, group in enumerate(self.group_names):
                ended[name, group] = curves.get((name, group), values[:, code, None])
        before = self.results
        self.results = {k: torch.cat([before[k], v]) if before else v for k, v in ended.items()}

    def final(self, measure: str, group: str | None = None) -> Tensor:
        """Returns a measure after the last round, (R,)."""
        return self.results[measure, group][:, -1]

    def by_group(self, measure: str) -> Tensor:
        """Returns a measure of each group after the last round, (R, G)."""
        return torch.stack([self.final(measure, group) for group in self.group_names], 1)

    def curves(self) -> dict[Key, Curve]:
        """Returns the curves of the finished batches."""
        return {key: Curve(at, self.results[key].numpy()) for key, at in self.steps.items()}

    def tables(self) -> tuple[pa.Table, pa.Table]:
        """Returns the tidy tables of the finals and the curves."""
        end = np.zeros(1, np.int64)
        finals = {key: Curve(end, self.results[key][:, -1:].numpy()) for key in self.results}
        return _tidy(finals, SCHEMA), _tidy(self.curves(), CURVES_SCHEMA)


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


class RoundLog:
    """Writes the rounds of one batch, in files that end on fixed multiples of `CHUNK_ROUNDS`.

    Each row is one pick, and rows are ordered by round, then by replica. With several picks from a
    pool, rows are then ordered by a further column `slot`, which counts from 0. Rows for empty
    slots are left out, and the metrics of a round are in the row of slot 0 only. A round without
    any pick has this row, too, with the action and the group −1.

    A file is written as soon as its last round is known. `finish` writes the last file. `written`
    has the SHA-256 hash of each file by its name.
    """

    def __init__(
        self, folder: Path, replicas: Sequence[int], metrics: Sequence[str], picks: int = 1
    ) -> None:
        folder.mkdir(exist_ok=True)
        counts = ("replica", "round", *(["slot"] if picks > 1 else []), "action", "group")
        further = (column for column in metrics if column not in REGRETS)
        numbers = ("reward", "expected_reward", "rank", *REGRETS, "propensity", *further)
        kinds = dict.fromkeys(counts, pa.int64()) | dict.fromkeys(numbers, pa.float64())
        self._schema, self.written = pa.schema(kinds), dict[str, str]()
        self._folder, self._replicas = folder, torch.tensor(replicas)
        self._file_rounds = max(1, FILE_ROWS // len(replicas) // CHUNK_ROUNDS) * CHUNK_ROUNDS
        self._waiting = list[list[Tensor]]()

    def add(self, played: Played) -> None:
        """Appends the next piece of rounds, ordered by round and then by replica."""
        count, replicas = played.actions.shape[1], len(self._replicas)

        def ordered(values: Tensor) -> Tensor:
            """Returns (N, B, m) values: by round, replica and slot."""
            return values.transpose(0, 1).reshape(count, replicas, -1)

        picks = ordered(played.actions)
        slots = torch.arange(picks.shape[2])
        values = {
            "replica": self._replicas[:, None],
            "round": torch.arange(played.first, played.first + count)[:, None, None],
            "slot": slots,
            "action": picks,
            "group": ordered(played.groups),
            "reward": ordered(played.rewards),
            "expected_reward": ordered(played.expected),
            "rank": ordered(played.ranks),
            "propensity": ordered(played.propensities),
        }
        for name, metric in played.metrics.items():
            values[name] = ordered(metric).masked_fill(slots > 0, torch.nan)
        kept = (picks >= 0) | (slots == 0)
        columns = [values[name].expand(picks.shape)[kept] for name in self._schema.names]
        self._waiting.append(columns)
        if played.last % self._file_rounds == 0:
            self.finish()

    def finish(self) -> None:
        """Writes the rows that are not written yet."""
        if not self._waiting:
            return
        columns = [torch.cat(pieces) for pieces in zip(*self._waiting, strict=True)]
        name = f"part-{int(self._replicas[0]):06d}-{int(columns[1][0]):09d}.parquet"
        self.written[name] = write_table(
            self._folder / name,
            _table(columns, self._schema),
            use_dictionary=["replica", "action", "group"],
            column_encoding={"round": "DELTA_BINARY_PACKED"},
        )
        self._waiting = []


def write_rewards(environment: Environment, folder: Path) -> dict[str, str]:
    """Writes `REWARDS` if the environment knows the distributions; returns its hash by its name."""
    pieces = []
    for code in range(len(environment.group_names)):
        distribution = environment.reward_distribution(code)
        if distribution is not None:
            codes = torch.full(distribution.values.shape, code, dtype=torch.int64)
            pieces.append((codes, distribution.values, distribution.density, distribution.cdf))
    if not pieces:
        return {}
    columns = [torch.cat(column) for column in zip(*pieces, strict=True)]
    return {REWARDS: write_table(folder / REWARDS, _table(columns, REWARDS_SCHEMA))}


def write_table(path: Path, table: pa.Table, **options: Any) -> str:
    """Writes a Parquet file atomically, and returns its SHA-256 hash."""
    with written_aside(path) as file:
        pq.write_table(table, file, compression="zstd", write_page_checksum=True, **options)
    return sha256(path)


def _table(columns: Sequence[Tensor], schema: pa.Schema) -> pa.Table:
    arrays = [pa.array(column.numpy(), from_pandas=True) for column in columns]
    return pa.Table.from_arrays(arrays, schema=schema)

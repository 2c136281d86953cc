"""The Parquet files of a run: its round log, and the distributions of the groups' true rewards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from fairbandit.environments import Environment
from fairbandit.files.files import sha256, written_aside
from fairbandit.metrics import REGRETS, Played
from fairbandit.runs.folder import REWARDS
from fairbandit.streams import CHUNK_ROUNDS

FILE_ROWS = 2**18
"""The approximate number of rows of a file, which are kept in memory until it is written."""

REWARDS_SCHEMA = pa.schema(
    [("group", pa.int64()), *((name, pa.float64()) for name in ("value", "density", "cdf"))]
)


def schema(metrics: Iterable[str], picks: int) -> pa.Schema:
    """Returns the schema of a round log with some metrics and `picks` picks from a pool."""
    counts = ("replica", "round", *(["slot"] if picks > 1 else []), "action", "group")
    others = (column for column in metrics if column not in REGRETS)
    numbers = ("reward", "expected_reward", "rank", *REGRETS, "propensity", *others)
    return pa.schema([*((n, pa.int64()) for n in counts), *((n, pa.float64()) for n in numbers)])


class RoundLog:
    """Writes the rounds of one batch, in files that end on fixed multiples of `CHUNK_ROUNDS`.

    Each row is one pick, and rows are ordered by round, then by replica. With several picks from a
    pool, rows are then ordered by a further column `slot`, which counts from 0. Rows for empty
    slots are left out, and the metrics of a round are in the row of slot 0 only. A round without
    any pick has this row, too, with the action and the group −1.

    A file is written as soon as its last round is known. `finish` writes the last file.

    Attributes:
        written: the SHA-256 hash of each file written, by name.
    """

    def __init__(
        self, folder: Path, replicas: Sequence[int], metrics: Sequence[str], picks: int = 1
    ) -> None:
        folder.mkdir(exist_ok=True)
        self._schema = schema(metrics, picks)
        self.written: dict[str, str] = {}
        self._folder, self._replicas = folder, torch.tensor(replicas)
        chunks = max(1, FILE_ROWS // len(replicas) // CHUNK_ROUNDS)
        self._file_rounds = chunks * CHUNK_ROUNDS
        types = {pa.int64(): torch.int64, pa.float64(): torch.float64}
        self._empty = [torch.zeros(0, dtype=types[kind]) for kind in self._schema.types]
        self._waiting = [self._empty]

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
        columns = [torch.cat(pieces) for pieces in zip(*self._waiting, strict=True)]
        if not len(columns[0]):
            return
        name = f"part-{int(self._replicas[0]):06d}-{int(columns[1][0]):09d}.parquet"
        self.written[name] = write_table(
            self._folder / name,
            _table(columns, self._schema),
            use_dictionary=["replica", "action", "group"],
            column_encoding={"round": "DELTA_BINARY_PACKED"},
        )
        self._waiting = [self._empty]


def write_rewards(environment: Environment, folder: Path) -> dict[str, str]:
    """Writes `REWARDS` if the environment knows the distributions; returns its hash by its name."""
    pieces = []
    for code in range(len(environment.group_names)):
        known = environment.reward_distribution(code)
        if known is not None:
            codes = torch.full(known.values.shape, code, dtype=torch.int64)
            pieces.append((codes, known.values, known.density, known.cdf))
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

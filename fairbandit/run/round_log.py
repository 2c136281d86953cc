"""The round log: every round of every replica, in Parquet files written as the run goes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from fairbandit.maths.checks import length, like
from fairbandit.metrics import REGRETS, Played
from fairbandit.run.folder import written_aside
from fairbandit.run.hashes import sha256
from fairbandit.streams import GRID

FILE_ROWS = 2**18
"""About how many rows a file holds; as many wait in memory."""

GROUP_ROWS = 2**17
"""About how many rows a row group holds."""


def schema(metrics: Iterable[str] = ()) -> pa.Schema:
    """Returns the columns of `rounds/part-*.parquet`, in order.

    Args:
        metrics: the columns of the metrics that the run asks for.
    """
    numbers = ("reward", "expected_reward", "rank", *REGRETS, "propensity", *metrics)
    return pa.schema(
        [
            *((name, pa.int64()) for name in ("replica", "round", "action", "group")),
            *((name, pa.float64()) for name in numbers),
        ]
    )


class RoundLog:
    """Writes one batch's rounds; files and row groups end on fixed multiples of `GRID` rounds.

    Rows are ordered by round, then by replica. A file is written in one go once its last round is
    there, so that a run that goes on from a checkpoint writes the same bytes as one never stopped.
    Used as a context manager, which writes the last file unless there was an error.

    Args:
        folder: where the files go.
        replicas: the batch's replica numbers.
        metrics: the columns of the metrics that the run asks for.

    Attributes:
        written: the SHA-256 hash of each file written, by its name.
    """

    def __init__(self, folder: Path, replicas: Sequence[int], metrics: Sequence[str] = ()) -> None:
        folder.mkdir(exist_ok=True)
        self._metrics, self._schema = tuple(metrics), schema(metrics)
        self.written: dict[str, str] = {}
        self._folder, self._replicas = folder, torch.tensor(replicas)
        self._file_rounds = _on_grid(FILE_ROWS, len(replicas))
        self._group_rounds = _on_grid(GROUP_ROWS, len(replicas))
        self._waiting: list[list[Tensor]] = []

    def __enter__(self) -> RoundLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self._write()

    def add(self, played: Played) -> None:
        """Takes in a piece of rounds, in order of rounds."""
        self._waiting.append(self._columns_of(played))
        if played.last % self._file_rounds == 0:
            self._write()

    def state(self) -> dict[str, Any]:
        """The rows that wait for their file to be full."""
        return {"waiting": self._columns()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state that `state` gave.

        Raises:
            FairbanditError: columns that are not those of the round log.
        """
        waiting = state["waiting"]
        if waiting:
            size = len(length("round log", waiting, len(self._schema))[0])
            for name, column in zip(self._schema.names, waiting, strict=True):
                like(f"round log, {name}", column, torch.empty(size, dtype=column.dtype))
        self._waiting = [list(waiting)] if waiting else []

    def _columns(self) -> list[Tensor]:
        return [torch.cat(pieces) for pieces in zip(*self._waiting, strict=True)]

    def _columns_of(self, played: Played) -> list[Tensor]:
        """The columns of a piece of rounds, ordered by round and then by replica."""
        count = played.actions.shape[1]
        rounds = torch.arange(played.first, played.first + count)
        values = [
            *(played.actions, played.groups, played.rewards, played.expected, played.ranks),
            *(played.metrics[name] for name in REGRETS),
            played.propensities,
            *(played.metrics[name] for name in self._metrics),
        ]
        return [
            self._replicas.repeat(count),
            rounds.repeat_interleave(len(self._replicas)),
            *(value.T.reshape(-1) for value in values),
        ]

    def _write(self) -> None:
        if not self._waiting:
            return
        columns = self._columns()
        arrays = map(arrow_array, columns, self._schema.types)
        table = pa.Table.from_arrays(list(arrays), schema=self._schema)
        name = f"part-{int(self._replicas[0]):06d}-{int(columns[1][0]):09d}.parquet"
        # the end of a file is the end of a group
        group = min(self._group_rounds, self._file_rounds) * len(self._replicas)
        with (
            written_aside(self._folder / name) as file,
            pq.ParquetWriter(
                file,
                self._schema,
                compression="zstd",
                use_dictionary=["replica", "action", "group"],
                column_encoding={"round": "DELTA_BINARY_PACKED"},
                write_page_checksum=True,
            ) as parquet,
        ):
            parquet.write_table(table, row_group_size=group)
        self.written[name] = sha256(self._folder / name)
        self._waiting.clear()


def arrow_array(column: Tensor, kind: pa.DataType) -> pa.Array:
    """Returns a column as an Arrow array that shares its memory, with null for NaN.

    `pa.array` would import pandas to look at the column.
    """
    known = ~column.isnan()
    mask = None if bool(known.all()) else np.packbits(known.numpy(), bitorder="little")
    buffers = [None if mask is None else pa.py_buffer(mask), pa.py_buffer(column.numpy())]
    return pa.Array.from_buffers(kind, len(column), buffers)


def _on_grid(rows: int, replicas: int) -> int:
    """The multiple of the grid nearest below the rounds that make so many rows; at least one."""
    return max(1, rows // replicas // GRID) * GRID

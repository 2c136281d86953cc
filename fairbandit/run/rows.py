"""Every round of every replica, in Parquet files written as the run goes."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from fairbandit.engine import Played
from fairbandit.run.folder import written_aside
from fairbandit.streams import GRID

SCHEMA = pa.schema(
    [
        *((name, pa.int64()) for name in ("replica", "round", "action", "group")),
        *((name, pa.float64()) for name in ("reward", "expected_reward", "rank")),
        *((name, pa.float64()) for name in ("standard_regret", "fair_regret")),
    ]
)
"""The columns of `rounds/part-*.parquet`, in order."""

FILE_ROWS = 2**20
"""About how many rows a file holds."""

GROUP_ROWS = 2**17
"""About how many rows a row group holds; as many wait in memory."""


class RowsWriter:
    """Writes one batch's rounds; files and row groups end on fixed multiples of 64 rounds.

    Rows are ordered by round, then by replica. Used as a context manager: on an error the file
    being written disappears.

    Args:
        folder: where the files go.
        replicas: the batch's replica numbers.
    """

    def __init__(self, folder: Path, replicas: list[int]) -> None:
        folder.mkdir(exist_ok=True)
        self._folder, self._replicas = folder, torch.tensor(replicas)
        self._file_rounds = _on_grid(FILE_ROWS, len(replicas))
        self._group_rounds = _on_grid(GROUP_ROWS, len(replicas))
        self._waiting: list[list[Tensor]] = []
        self._file = ExitStack()
        self._parquet: pq.ParquetWriter | None = None

    def __enter__(self) -> RowsWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            try:
                self._end_file()
            finally:
                self._file.close()
        else:
            self._file.__exit__(kind, error, trace)

    def add(self, played: Played) -> None:
        """Takes in a piece of rounds, in order of rounds."""
        if self._parquet is None:
            self._begin_file(played.first)
        self._waiting.append(_columns(played, self._replicas))
        last = played.first + played.actions.shape[1] - 1
        if last % self._file_rounds == 0:
            self._end_file()
        elif last % self._group_rounds == 0:
            self._end_group()

    def _begin_file(self, first: int) -> None:
        path = self._folder / f"part-{int(self._replicas[0]):06d}-{first:09d}.parquet"
        file = self._file.enter_context(written_aside(path))
        writer = pq.ParquetWriter(
            file,
            SCHEMA,
            compression="zstd",
            use_dictionary=["replica", "action", "group"],
            column_encoding={"round": "DELTA_BINARY_PACKED"},
        )
        self._parquet = self._file.enter_context(writer)

    def _end_group(self) -> None:
        if self._waiting and self._parquet is not None:
            columns = [torch.cat(pieces) for pieces in zip(*self._waiting, strict=True)]
            arrays = [
                _array(column, kind) for column, kind in zip(columns, SCHEMA.types, strict=True)
            ]
            table = pa.Table.from_arrays(arrays, schema=SCHEMA)
            self._parquet.write_table(table, row_group_size=table.num_rows)
            self._waiting.clear()

    def _end_file(self) -> None:
        self._end_group()
        self._file.close()
        self._parquet = None


def _columns(played: Played, replicas: Tensor) -> list[Tensor]:
    count = played.actions.shape[1]
    rounds = torch.arange(played.first, played.first + count)
    return [
        replicas.repeat(count),
        rounds.repeat_interleave(len(replicas)),
        *(
            values.T.reshape(-1)
            for values in (
                played.actions,
                played.groups,
                played.rewards,
                played.expected,
                played.ranks,
                played.standard_regret,
                played.fair_regret,
            )
        ),
    ]


def _array(column: Tensor, kind: pa.DataType) -> pa.Array:
    """The column's own memory as an Arrow array; `pa.array` would import pandas to look at it."""
    return pa.Array.from_buffers(kind, len(column), [None, pa.py_buffer(column.numpy())])


def _on_grid(rows: int, replicas: int) -> int:
    """The multiple of the grid nearest below the rounds that make so many rows; at least one."""
    return max(1, rows // replicas // GRID) * GRID

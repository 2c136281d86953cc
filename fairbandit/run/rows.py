"""Every round of every replica, in Parquet files written as the run goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from fairbandit.engine import Played
from fairbandit.maths.checks import length, like
from fairbandit.run.folder import written_aside
from fairbandit.run.hashes import sha256
from fairbandit.streams import GRID

SCHEMA = pa.schema(
    [
        *((name, pa.int64()) for name in ("replica", "round", "action", "group")),
        *((name, pa.float64()) for name in ("reward", "expected_reward", "rank")),
        *((name, pa.float64()) for name in ("standard_regret", "fair_regret")),
    ]
)
"""The columns of `rounds/part-*.parquet`, in order."""

FILE_ROWS = 2**18
"""About how many rows a file holds; as many wait in memory."""

GROUP_ROWS = 2**17
"""About how many rows a row group holds."""


class RowsWriter:
    """Writes one batch's rounds; files and row groups end on fixed multiples of `GRID` rounds.

    Rows are ordered by round, then by replica. A file is written in one go once its last round is
    there, so that a run that goes on from a checkpoint writes the same bytes as one never stopped.
    Used as a context manager, which writes the last file unless there was an error.

    Args:
        folder: where the files go.
        replicas: the batch's replica numbers.

    Attributes:
        written: the SHA-256 hash of each file written, by its name.
    """

    def __init__(self, folder: Path, replicas: Sequence[int]) -> None:
        folder.mkdir(exist_ok=True)
        self.written: dict[str, str] = {}
        self._folder, self._replicas = folder, torch.tensor(replicas)
        self._file_rounds = _on_grid(FILE_ROWS, len(replicas))
        self._group_rounds = _on_grid(GROUP_ROWS, len(replicas))
        self._waiting: list[list[Tensor]] = []

    def __enter__(self) -> RowsWriter:
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
        self._waiting.append(_columns(played, self._replicas))
        if played.last % self._file_rounds == 0:
            self._write()

    def state(self) -> dict[str, Any]:
        """The rows that wait for their file to be full."""
        return {"waiting": self._columns()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state that `state` gave.

        Raises:
            FairbanditError: columns that are not those of `SCHEMA`.
        """
        waiting = state["waiting"]
        if waiting:
            size = len(length("rows", waiting, len(SCHEMA))[0])
            for name, column in zip(SCHEMA.names, waiting, strict=True):
                like(f"rows, {name}", column, torch.empty(size, dtype=column.dtype))
        self._waiting = [list(waiting)] if waiting else []

    def _columns(self) -> list[Tensor]:
        return [torch.cat(pieces) for pieces in zip(*self._waiting, strict=True)]

    def _write(self) -> None:
        if not self._waiting:
            return
        columns = self._columns()
        arrays = [
            arrow_array(column, kind) for column, kind in zip(columns, SCHEMA.types, strict=True)
        ]
        table = pa.Table.from_arrays(arrays, schema=SCHEMA)
        name = f"part-{int(self._replicas[0]):06d}-{int(columns[1][0]):09d}.parquet"
        # the end of a file is the end of a group
        group = min(self._group_rounds, self._file_rounds) * len(self._replicas)
        with (
            written_aside(self._folder / name) as file,
            pq.ParquetWriter(
                file,
                SCHEMA,
                compression="zstd",
                use_dictionary=["replica", "action", "group"],
                column_encoding={"round": "DELTA_BINARY_PACKED"},
                write_page_checksum=True,
            ) as parquet,
        ):
            parquet.write_table(table, row_group_size=group)
        self.written[name] = sha256(self._folder / name)
        self._waiting.clear()


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


def arrow_array(column: Tensor, kind: pa.DataType) -> pa.Array:
    """A column's own memory as an Arrow array; `pa.array` would import pandas to look at it."""
    return pa.Array.from_buffers(kind, len(column), [None, pa.py_buffer(column.numpy())])


def _on_grid(rows: int, replicas: int) -> int:
    """The multiple of the grid nearest below the rounds that make so many rows; at least one."""
    return max(1, rows // replicas // GRID) * GRID

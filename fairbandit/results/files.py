"""The Parquet files of a finished run, read only if they are byte for byte what the run wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.files import sha256
from fairbandit.run.folder import ROUNDS, SUMMARY


@contextmanager
def opened(
    folder: Path, name: str, summary: Mapping[str, Any], columns: Sequence[str] = ()
) -> Iterator[pq.ParquetFile]:
    """Opens a Parquet file of a finished run.

    The hash of the file must be the one in the run's summary. Parquet's own checksums are verified
    as well, but they cover neither the headers of pages nor the footer, which say how pages are
    read.

    Args:
        folder: the run's folder.
        name: the path of the file in this folder.
        summary: the run's summary.
        columns: the columns that will be read.

    Raises:
        FairbanditError: the file or a column is not there, or the file is not as the run left it;
            or what is done with its contents within the `with` block shows that they are damaged.
    """
    path = folder / name
    try:
        if not path.is_file() or sha256(path) != summary["files"].get(name):
            raise damaged(path, "its contents are not those that its run wrote")
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            missing = sorted(set(columns) - set(file.schema_arrow.names))
            if missing:
                raise damaged(path, f"it has no column {', '.join(map(repr, missing))}")
            yield file
    except (OSError, pa.ArrowException) as error:
        raise damaged(path, str(error).splitlines()[0]) from error


def row_groups(
    folder: Path, summary: Mapping[str, Any], columns: Sequence[str]
) -> Iterator[tuple[int, dict[str, Tensor]]]:
    """Reads columns of a finished run's round log, one batch of replicas after the other.

    Yields:
        The first of N consecutive rounds, from 1, and each column of these rounds and of the B
        replicas that were played together, (B, N); NaN stands for null. A batch of replicas begins
        with round 1.

    Raises:
        FairbanditError: at the first use of a file that is missing, damaged or of another run, that
            lacks a column, or whose rows are not one for each round and replica.
    """
    rounds, replicas = summary["rounds"], summary["replicas"]
    seen = torch.zeros(rounds, dtype=torch.int64)
    for name in _parts(folder, summary):
        with opened(folder, name, summary, columns) as file:
            for index in range(file.num_row_groups):
                table = file.read_row_group(index, columns=["round", *columns])
                numbers, *values = (
                    torch.from_numpy(table.column(column).to_numpy().copy())
                    for column in ("round", *columns)
                )
                first, count = int(numbers[0]), int(numbers[-1] - numbers[0]) + 1
                expected = torch.arange(first, first + count)
                expected = expected.repeat_interleave(len(numbers) // count)
                if not 1 <= first <= first + count - 1 <= rounds or not numbers.equal(expected):
                    raise FairbanditError(
                        f"{folder / ROUNDS} holds rows that are not those of rounds in order, each "
                        f"of all replicas, up to round {rounds:,}; play the run again"
                    )
                seen[first - 1 : first - 1 + count] += len(numbers) // count
                read = [column.view(count, -1).T for column in values]
                yield first, dict(zip(columns, read, strict=True))
    if not bool((seen == replicas).all()):
        raise FairbanditError(
            f"{folder / ROUNDS} holds {int(seen.sum()):,} rows, where {SUMMARY} says "
            f"{rounds:,} rounds of {replicas:,} replicas: some are missing or there twice"
        )


def read_rounds(
    folder: Path, summary: Mapping[str, Any], columns: Sequence[str] | None = None
) -> pa.Table:
    """Reads the round log of a finished run, or some of its columns.

    Raises:
        FairbanditError: a file is missing, damaged or of another run, or lacks a column.
    """
    pieces = []
    for name in _parts(folder, summary):
        with opened(folder, name, summary, columns or ()) as file:
            pieces.append(file.read(columns))
    return pa.concat_tables(pieces)


def _parts(folder: Path, summary: Mapping[str, Any]) -> list[str]:
    """Returns the files of a run's round log in order, by their paths in its folder.

    Raises:
        FairbanditError: files are lacking, or come from elsewhere.
    """
    found = {f"{ROUNDS}/{path.name}" for path in (folder / ROUNDS).glob("part-*.parquet")}
    wrote = {name for name in summary["files"] if name.startswith(f"{ROUNDS}/")}
    if found != wrote:
        raise FairbanditError(
            f"{folder / ROUNDS} does not hold the files that its run wrote: "
            f"{_listed(wrote - found)} lacking, {_listed(found - wrote)} from elsewhere; put "
            "the folder in order, or play the run again"
        )
    return sorted(found)


def damaged(path: Path, why: str) -> FairbanditError:
    """Returns the error for a file of a run that cannot be read."""
    return FairbanditError(
        f"{path} cannot be read: {why}. Put it back as it was, or remove the run's folder and play "
        "it again"
    )


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"

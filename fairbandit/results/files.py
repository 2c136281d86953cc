"""The Parquet files of a finished run, read only if they are byte for byte what the run wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fairbandit.errors import FairbanditError
from fairbandit.files import sha256
from fairbandit.run.folder import ROUNDS


@contextmanager
def opened(
    folder: Path, name: str, summary: Mapping[str, Any], columns: Sequence[str] | None = None
) -> Iterator[pq.ParquetFile]:
    """Opens a Parquet file of a finished run.

    Args:
        folder: the run's folder.
        name: the path of the file in this folder.
        summary: the run's summary, which has the file's hash.
        columns: the columns that will be read.

    Raises:
        FairbanditError: the file or a column is not there, or the file is not as the run left it.
    """
    path = folder / name
    try:
        if not path.is_file():
            raise _damaged(path, "it is not there")
        if sha256(path) != summary["files"].get(name):
            raise _damaged(path, "its contents are not those that its run wrote")
        with pq.ParquetFile(path) as file:
            missing = sorted(set(columns or ()) - set(file.schema_arrow.names))
            if missing:
                raise _damaged(path, f"it has no column {', '.join(map(repr, missing))}")
            yield file
    except OSError as error:
        raise _damaged(path, error.strerror or str(error)) from error


def row_groups(
    folder: Path, summary: Mapping[str, Any], columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """Yields the round log of a finished run, or some of its columns, one row group at a time.

    Raises:
        FairbanditError: at the first file that `opened` refuses.
    """
    for name in sorted(name for name in summary["files"] if name.startswith(f"{ROUNDS}/")):
        with opened(folder, name, summary, columns) as file:
            for index in range(file.num_row_groups):
                yield file.read_row_group(index, columns=columns)


def _damaged(path: Path, why: str) -> FairbanditError:
    return FairbanditError(
        f"{path} cannot be read: {why}. Put it back as it was, or remove the run's folder and play "
        "it again"
    )

"""The Parquet files of a finished run, read only if they are byte for byte what the run wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fairbandit.errors import FairbanditError
from fairbandit.files import sha256
from fairbandit.run.folder import ROUNDS


def read(
    folder: Path, name: str, summary: Mapping[str, Any], columns: Sequence[str] | None = None
) -> pa.Table:
    """Reads a Parquet file of a finished run.

    Args:
        folder: the run's folder.
        name: the path of the file in this folder.
        summary: the run's summary, which has the file's hash.
        columns: the columns to read; None for all.

    Raises:
        FairbanditError: the file or a column is not there, or the file is not as the run left it.
    """
    path = folder / name
    try:
        if not path.is_file():
            raise OSError("it is not there")
        if sha256(path) != summary["files"].get(name):
            raise OSError("its contents are not those that its run wrote")
        with pq.ParquetFile(path) as file:
            missing = sorted(set(columns or ()) - set(file.schema_arrow.names))
            if missing:
                raise OSError(f"it has no column {', '.join(map(repr, missing))}")
            return file.read(columns)
    except OSError as error:
        raise FairbanditError(
            f"{path} cannot be read: {error.strerror or error}. Put it back as it was, or remove "
            "the run's folder and play it again"
        ) from error


def logs(
    folder: Path, summary: Mapping[str, Any], columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """Yields the files of a finished run's round log, or some of their columns, in order."""
    for name in sorted(name for name in summary["files"] if name.startswith(f"{ROUNDS}/")):
        yield read(folder, name, summary, columns)

"""The Parquet files of a finished run, read only if they are byte for byte what the run wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fairbandit.errors import FairbanditError
from fairbandit.run import rewards, rows
from fairbandit.run.folder import REWARDS, ROUNDS
from fairbandit.run.hashes import sha256


@contextmanager
def opened(folder: Path, name: str, summary: Mapping[str, Any]) -> Iterator[pq.ParquetFile]:
    """A Parquet file of a finished run.

    The file's hash must be the one in the run's summary. Parquet's own checksums are verified as
    well, but cover neither the headers of pages nor the footer, which say how pages are read.
    Summaries of runs that recorded no hashes leave these checksums alone to be verified.

    Args:
        folder: the run's.
        name: the file's path in there.
        summary: the run's.

    Raises:
        FairbanditError: the file is not there, or not as the run left it; or what is done with
            its contents within the `with` block shows that they are damaged.
    """
    path = folder / name
    try:
        owed = summary["files"].get(name) if "files" in summary else None
        if "files" in summary and sha256(path) != owed:
            raise _damaged(path, "its contents are not those that its run wrote")
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            schema = rewards.SCHEMA if name == REWARDS else rows.SCHEMA
            if not file.schema_arrow.equals(schema):
                raise _damaged(path, "it has other columns than its run wrote")
            yield file
    except (OSError, pa.ArrowException) as error:
        raise _damaged(path, str(error).splitlines()[0]) from error


def row_files(folder: Path, summary: Mapping[str, Any]) -> Iterator[pq.ParquetFile]:
    """The files of a finished run's rounds, one after the other, in their order.

    Args:
        folder: the run's.
        summary: the run's.

    Raises:
        FairbanditError: a file is lacking, is not the run's, or is damaged.
    """
    there = {f"{ROUNDS}/{path.name}" for path in (folder / ROUNDS).glob("part-*.parquet")}
    owed = {name for name in summary.get("files", there) if name.startswith(f"{ROUNDS}/")}
    if there != owed:
        raise FairbanditError(
            f"{folder / ROUNDS} does not hold the files that its run wrote: "
            f"{_listed(owed - there)} lacking, {_listed(there - owed)} from elsewhere; put the "
            "folder in order, or play the run again"
        )
    for name in sorted(there):
        with opened(folder, name, summary) as file:
            yield file


def _damaged(path: Path, why: str) -> FairbanditError:
    return FairbanditError(
        f"{path} cannot be read: {why}. Put it back as it was, or remove the run's folder and play "
        "it again"
    )


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"

"""The Parquet files of a finished run, read only if they are byte for byte what the run wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from pyarrow.fs import LocalFileSystem
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.run.folder import ROUNDS, SUMMARY
from fairbandit.run.hashes import sha256

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset


@contextmanager
def opened(
    folder: Path, name: str, summary: Mapping[str, Any], columns: Sequence[str] = ()
) -> Iterator[pq.ParquetFile]:
    """Opens a Parquet file of a finished run.

    The hash of the file must be the one in the run's summary. Parquet's own checksums are verified
    as well, but they cover neither the headers of pages nor the footer, which say how pages are
    read. For a run whose summary holds no hashes, only these checksums are verified.

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
        expected = summary["files"].get(name) if "files" in summary else None
        if "files" in summary and sha256(path) != expected:
            raise _damaged(path, "its contents are not those that its run wrote")
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            missing = sorted(set(columns) - set(file.schema_arrow.names))
            if missing:
                raise _damaged(path, f"it has no column {', '.join(map(repr, missing))}")
            yield file
    except (OSError, pa.ArrowException) as error:
        raise _damaged(path, str(error).splitlines()[0]) from error


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


def rounds_dataset(
    runs: Sequence[tuple[Path, str, Mapping[str, Any]]], columns: Sequence[str] | None = None
) -> Dataset:
    """Opens the round logs of finished runs as one dataset, of which nothing is read yet.

    Args:
        runs: the folder of each run, its name in the column `folder`, and its summary.
        columns: the columns of the round log; None for all that any run has.

    Raises:
        FairbanditError: a file is not as its run left it, or no run has such a column.
    """
    from pyarrow import dataset

    disk = LocalFileSystem()
    options = dataset.ParquetFragmentScanOptions(page_checksum_verification=True)
    form = dataset.ParquetFileFormat(default_fragment_scan_options=options)
    fragments, schemas = [], []
    for folder, place, summary in runs:
        names = _parts(folder, summary)
        for name in names:
            with opened(folder, name, summary) as file:
                schemas.append(file.schema_arrow.remove_metadata())
            where = dataset.field("folder") == place
            path = str((folder / name).absolute())
            fragments.append(form.make_fragment(path, disk, partition_expression=where))
    schema = pa.unify_schemas([*schemas, pa.schema([("folder", pa.string())])])
    unknown = sorted(set(columns or ()) - set(schema.names))
    if unknown:
        raise FairbanditError(
            f"no run has a column {', '.join(map(repr, unknown))}; there are "
            f"{', '.join(schema.names)}"
        )
    kept = schema.names if columns is None else list(dict.fromkeys([*columns, "folder"]))
    schema = pa.schema([schema.field(name) for name in kept])
    return dataset.FileSystemDataset(fragments, schema, form, disk)


def _parts(folder: Path, summary: Mapping[str, Any]) -> list[str]:
    """Returns the files of a run's round log in order, by their paths in its folder.

    Raises:
        FairbanditError: files are lacking, or come from elsewhere.
    """
    found = {f"{ROUNDS}/{path.name}" for path in (folder / ROUNDS).glob("part-*.parquet")}
    wrote = {name for name in summary.get("files", found) if name.startswith(f"{ROUNDS}/")}
    if found != wrote:
        raise FairbanditError(
            f"{folder / ROUNDS} does not hold the files that its run wrote: "
            f"{_listed(wrote - found)} lacking, {_listed(found - wrote)} from elsewhere; put "
            "the folder in order, or play the run again"
        )
    return sorted(found)


def _damaged(path: Path, why: str) -> FairbanditError:
    return FairbanditError(
        f"{path} cannot be read: {why}. Put it back as it was, or remove the run's folder and play "
        "it again"
    )


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"

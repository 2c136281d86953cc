"""Files of tables, CSV and Parquet: their names in a folder, their columns, and their cells."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from fairbandit.errors import FairbanditError, did_you_mean
from fairbandit.files.files import natural_order, open_regular, sha256
from fairbandit.notices import listed, remark
from fairbandit.tables.cells import FILES

TABLES = (*FILES, ".csv.gz", ".parquet.gz")
"""How the names of tables in a folder end, of which compressed ones are refused."""

_INDEX = re.compile(r"__index_level_[0-9]+__")  # the index of a table that pandas wrote


def files_in(path: Path, endings: Sequence[str] = TABLES) -> list[Path]:
    """Returns the files of a folder, in the natural order of their names, with notices."""
    every = sorted(path.iterdir(), key=lambda file: (natural_order(file.name), file.name))
    paths = [file for file in every if file.name.lower().endswith(tuple(endings))]
    if not paths:
        raise FairbanditError(f"{path} holds no file that ends in {', '.join(endings)}")
    sizes, hashes = Counter(file.stat().st_size for file in paths), dict[str, Path]()
    for file in paths:  # only files of one size can be copies
        several = sizes[file.stat().st_size] > 1 and file.is_file()
        if several and (copy := hashes.setdefault(sha256(file), file)) != file:
            raise FairbanditError(f"{path} holds {file.name} twice, as {copy.name}")
    if len(paths) > 1:
        first_to_last = f"{paths[0].name} … {paths[-1].name}"
        remark(f"{path}: {len(paths):,} files in the natural order of their names: {first_to_last}")
    read_endings = (*endings, ".lock")
    if left_out := [file.name for file in every if not file.name.lower().endswith(read_endings)]:
        remark(f"{path}: {len(left_out):,} other files are left out: {listed(left_out, 5)}")
    return paths


def read_header(path: Path, separator: str = ",") -> list[str]:
    """Returns the names of a file's columns; an index of pandas has none."""
    if path.suffix.lower() not in FILES or not path.exists():
        tables = [file.name for file in path.parent.glob("*") if file.suffix.lower() in FILES]
        problem = f"there is no file {path} that ends in .csv or .parquet, unpacked"
        raise FairbanditError(problem + did_you_mean(path.name, tables))
    mark = "\t" if separator == "tab" else separator
    if len(mark) != 1 or mark in '"\r\n':
        raise FairbanditError(f"'separator=;' takes one character, or tab; got {separator!r}")
    with _readable(path, separator) as file:
        if path.suffix.lower() == ".parquet":
            names = pq.read_schema(file).names
        else:
            lines = io.TextIOWrapper(file, "utf-8-sig", newline="")
            names = next(filter(None, csv.reader(lines, delimiter=mark)), [])
    marks = [sign for sign in ";,\t|" if len(names) == 1 and sign in names[0]]
    if marks and mark not in marks:
        right = marks[0].replace("\t", "tab")
        raise FairbanditError(
            f"{path} has one column {names[0]!r}; expected separator={right!r}, on the command "
            f"line 'separator={right}', and 'environment.separator={right}' for a run"
        )
    return named(names)


def named(names: Iterable[str]) -> list[str]:
    """Returns the names of columns without empty names and an index of pandas."""
    return [name for name in names if name and not _INDEX.fullmatch(name)]


def read_file(path: Path, names: Sequence[str], separator: str) -> pa.Table:
    """Returns some columns of a file; cells of a CSV file are texts, since `01` may be a code."""
    if twice := [repr(name) for name, times in Counter(names).items() if times > 1]:
        raise FairbanditError(f"{path} has more than one column {listed(twice)}; rename them")
    mark = "\t" if separator == "tab" else separator
    with _readable(path, separator) as file:
        if path.suffix.lower() == ".csv":
            _check_quotes(file, mark)
            types = dict.fromkeys(names, pa.string())
            read = pa_csv.ReadOptions(use_threads=False, block_size=1 << 24)
            parse = pa_csv.ParseOptions(delimiter=mark, newlines_in_values=True)
            convert = pa_csv.ConvertOptions(include_columns=types, column_types=types)
            table = pa_csv.read_csv(file, read, parse, convert)
        else:  # without read-ahead, whose threads could outlive the process
            parquet = pq.ParquetFile(file, page_checksum_verification=True, pre_buffer=False)
            table = parquet.read(columns=[*names], use_threads=False)
        table = table.select(names)
        table.validate(full=True)
    return table


def _check_quotes(file: BinaryIO, mark: str) -> None:
    """Refuses an open quotation mark, since Arrow would take all that follows for its cell."""
    quoted = any(b'"' in block for block in iter(lambda: file.read(1 << 20), b""))
    file.seek(0)
    if not quoted:
        return
    lines = io.TextIOWrapper(file, "utf-8-sig", newline="")
    rows, first = csv.reader(lines, delimiter=mark, strict=True), 1
    try:
        for _ in rows:
            first = rows.line_num + 1
    except csv.Error as error:
        problem = f"the row that begins in line {first} has a quotation mark that is not closed"
        raise csv.Error(f"{problem} at the end of its cell ({error})") from error
    lines.detach()
    file.seek(0)


@contextmanager
def _readable(path: Path, separator: str) -> Iterator[BinaryIO]:
    try:
        with open_regular(path) as file:
            yield file
    except (pa.ArrowException, OSError, UnicodeError, csv.Error) as error:
        reason = str(error).partition("\n")[0][:200]
        raise FairbanditError(
            f"{path} is not a readable table; it may be truncated, and a CSV file must be in UTF-8 "
            f"with {separator=}: {reason}"
        ) from error

"""Reads logs, whoever wrote them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from fairbandit.environments.reading import Source, keep, read_header, read_table, source_of
from fairbandit.errors import FairbanditError
from fairbandit.logs.dsjson import read_dsjson
from fairbandit.logs.log import Log
from fairbandit.logs.obp import read_obp
from fairbandit.logs.own import is_own, read_own
from fairbandit.logs.tables import encoder_of, log_of_table

TABLES = (".csv", ".parquet")
ENDINGS = (*TABLES, ".jsonl", ".json", ".dsjson")
"""How the files of logs are called."""


def read_log(
    source: Any,
    *,
    decision: str = "decision",
    picked: str = "picked",
    propensity: str | None = "propensity",
    group: Any = "group",
    reward: str = "reward",
    features: Sequence[str] | Mapping[str, Any] | str | None = None,
    score: str | None = None,
    separator: str = ",",
    decimal: str = ".",
    like: Log | None = None,
) -> Log:
    """Reads logged decisions.

    Args:
        source: one of
            the file or the folder that an agent's `log` names;
            a CSV or Parquet file, or a table of pandas, pyarrow or polars, with a row for each
            candidate;
            the dictionary of bandit feedback of obp;
            a file of Vowpal Wabbit's DSJSON;
            a folder of files of one of these kinds, which is one log. Each decision lies in one
            file.
        decision: the column that says which rows are one pool.
        picked: the column of 1 for the pick of each pool, and 0 for the others.
        propensity: the column of the probability with which each candidate would be picked, or of
            that of the pick alone, in its own row or in all of its pool; None where nobody knows
            it.
        group: the column of the sensitive group, or a list of several columns; for DSJSON, the
            feature that names the group; for obp, the label of each action's group, where None
            makes each action a group of its own.
        reward: the column of the reward, empty but for picks; and there, too, where none came.
        features: the columns of features, as a list, or a mapping or YAML file as
            `environment.columns` takes it; None takes all others that can be features. They are
            encoded as those of a `Table`, and so is the group.
        score: a column of scores by which candidates were judged, for audits.
        separator, decimal: of CSV files.
        like: a log of a table whose columns are the features, encoded as there; so an agent that
            learned from one table can be judged by another. None encodes by this table.

    Returns:
        The log, in the order of the files' names and of the lines in each.

    Raises:
        FairbanditError: a file that is missing, damaged or of another kind, or a value that does
            not make sense; the message names the row or the line.

    >>> table = {"decision": [1, 1, 2, 2], "group": ["a", "b", "b", "a"], "age": [3, 4, 5, 6],
    ...          "picked": [0, 1, 1, 0], "propensity": [0.5, 0.5, 0.5, 0.5],
    ...          "reward": [None, 2.0, 1.0, None]}
    >>> log = read_log(table)
    >>> len(log), log.labels, log.rewards[:, 0].tolist()
    (2, ('a', 'b'), [2.0, 1.0])
    """
    if isinstance(source, Mapping) and "pscore" in source:
        return read_obp(source, None if group == "group" else group)
    if isinstance(source, (str, PathLike)):
        paths = _files(Path(source))
        kinds = set(map(_kind, paths))
        if len(kinds) > 1:
            raise FairbanditError(f"{source} holds files of several kinds, which are no one log")
        if kinds == {"own"}:
            return Log.joined([read_own(path) for path in paths])
        if kinds == {"dsjson"}:
            return read_dsjson(paths, str(group))
        tables = [read_table(path, (), True, separator, decimal) for path in paths]
    elif isinstance(source, Source):
        tables = [replace(source, decimal=decimal)]
    else:
        path, _held = keep(source)  # which lives until the end of this call
        tables = [read_table(path, (), True, separator, decimal)]
    if not all(map(len, tables)):
        raise FairbanditError(f"{tables[0].name} holds no row, or a file beside it")
    if like is not None and like.encoder is None:
        raise FairbanditError("like: expected a log that was read from a table")
    columns = {"decision": decision, "picked": picked, "propensity": propensity}
    columns |= {"reward": reward, "score": score}
    groups = list(group) if isinstance(group, (list, tuple)) else [group]
    taken = [name for name in (*columns.values(), *groups) if name is not None]
    if len(taken) < 4 or not all(isinstance(name, str) for name in taken):
        raise FairbanditError(f"columns: expected their names, got {taken}")
    for table in tables:
        table.need(taken)
    encoder = like.encoder if like is not None else None
    encoder = encoder or encoder_of(_whole(tables), taken, groups, features)
    return Log.joined([log_of_table(table, columns, groups, encoder) for table in tables])


def read_pieces(
    path: str | PathLike[str],
    *,
    rows: int = 250_000,
    separator: str = ",",
    like: Log | None = None,
    **options: Any,
) -> Iterator[Log]:
    """Reads a log that is larger than memory, in pieces.

    A piece of a table has about so many rows; those of a decision stand together in the table. The
    first piece says how features are encoded, unless `like` does, so that later ones may hold no
    other categories. A file of another kind is one piece.

    Args:
        path: a file or a folder, as for `read_log`.
        rows: of a table, in a piece.
        separator, like, options: as for `read_log`.

    Yields:
        Consecutive decisions.

    Raises:
        FairbanditError: as `read_log`.
    """
    for one in _files(Path(path)):
        if _kind(one) != "table":
            yield read_log(one, **options)
            continue
        for piece in _pieces(one, options.get("decision", "decision"), rows, separator):
            log = read_log(piece, like=like, **options)
            like = log[:0] if like is None else like
            yield log


def _files(path: Path) -> list[Path]:
    """The files of a log, by name."""
    if not path.is_dir():
        return [path]
    files = [file for file in sorted(path.iterdir()) if file.suffix.lower() in ENDINGS]
    if not files:
        raise FairbanditError(f"{path} holds no file that ends in {', '.join(ENDINGS)}")
    return files


def _kind(path: Path) -> str:
    """What a file is: table, own or dsjson."""
    if path.suffix.lower() in TABLES:
        return "table"
    return "own" if is_own(path) else "dsjson"


def _whole(tables: Sequence[Source]) -> Source:
    """All rows of some tables, for what encodes them."""
    import pandas as pd

    first = tables[0]
    if any(dict(one.frame.dtypes) != dict(first.frame.dtypes) for one in tables):
        raise FairbanditError(f"{first.name} and other files have different columns, or types")
    frame = pd.concat([one.frame for one in tables], ignore_index=True)
    return replace(first, frame=frame)


def _pieces(path: Path, decision: str, rows: int, separator: str) -> Iterator[Source]:
    """The rows of a table in pieces that cut no decision, unless its rows stand apart."""
    first, rest, step = 0, None, rows // 8 + 1
    try:
        for batch in _batches(path, step, separator):
            if decision not in batch.schema.names:
                raise FairbanditError(f"{path} has no column {decision!r}")
            for low in range(0, len(batch), step):
                piece = pa.Table.from_batches([batch.slice(low, step)])
                rest = piece if rest is None else pa.concat_tables([rest, piece])
                if len(rest) < rows:
                    continue
                names = rest[decision]
                last = names[rows - 1]  # this decision may go on
                end = pc.index(names, last if last != names[0] else names[-1]).as_py()
                if end > 0:
                    yield source_of(rest[:end], str(path), first)
                    first, rest = first + end, rest[end:]
        if rest is not None:
            yield source_of(rest, str(path), first)
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise FairbanditError(f"cannot read {path}: {error}") from error


def _batches(path: Path, rows: int, separator: str) -> Iterator[pa.RecordBatch]:
    if path.suffix.lower() == ".parquet":  # the whole file would be kept with pre_buffer
        with parquet.ParquetFile(path, page_checksum_verification=True, pre_buffer=False) as file:
            yield from file.iter_batches(rows, use_threads=False)
    else:
        separator = "\t" if separator == "tab" else separator
        types = dict.fromkeys(read_header(path, separator), pa.string())  # as `read_table` does
        yield from csv.open_csv(
            path,
            parse_options=csv.ParseOptions(delimiter=separator, newlines_in_values=True),
            convert_options=csv.ConvertOptions(column_types=types),
        )

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
from fairbandit.logs.tables import Columns, encoder_of, log_of_table

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
        picked: the column of 1 for the pick of each pool, 2, 3, … for further picks of a shortlist,
            and 0 for the others.
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
    if not isinstance(source, Source):
        if isinstance(source, (str, PathLike)):
            kind, paths = _files(Path(source))
            if kind == "own":
                return read_own(paths, str(source))
            if kind == "dsjson":
                return read_dsjson(paths, str(source), str(group))
        else:
            path, _held = keep(source)  # which lives until the end of this call
            paths = [Path(path)]
        source = _together([read_table(one, (), True, separator, decimal) for one in paths])
    if not len(source):
        raise FairbanditError(f"{source.name} holds no row")
    if like is not None and like.encoder is None:
        raise FairbanditError("like: expected a log that was read from a table")
    columns = Columns(decision, picked, propensity, reward, score)
    groups = list(group) if isinstance(group, (list, tuple)) else [group]
    further = [name for name in (propensity, score) if name is not None]
    taken = [decision, picked, reward, *further, *groups]
    if not groups or not all(isinstance(name, str) for name in taken):
        raise FairbanditError(f"columns: expected their names, got {taken}")
    source = replace(source, decimal=decimal)
    source.need(taken)
    encoder = None if like is None else like.encoder
    encoder = encoder or encoder_of(source, taken, groups, features)
    return log_of_table(source, columns, groups, encoder)


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
    kind, paths = _files(Path(path))
    if kind != "table":
        yield read_log(path, **options)
        return
    for one in paths:
        for piece in _pieces(one, options.get("decision", "decision"), rows, separator):
            log = read_log(piece, like=like, **options)
            like = log[:0] if like is None else like
            yield log


def _files(path: Path) -> tuple[str, list[Path]]:
    """The kind of a log, table, own or dsjson, and its files, by name."""
    paths = [path]
    if path.is_dir():
        paths = [file for file in sorted(path.iterdir()) if file.suffix.lower() in ENDINGS]
        if not paths:
            raise FairbanditError(f"{path} holds no file that ends in {', '.join(ENDINGS)}")
    kinds = {
        "table" if file.suffix.lower() in TABLES else "own" if is_own(file) else "dsjson"
        for file in paths
    }
    if len(kinds) > 1:
        raise FairbanditError(f"{path} holds files of several kinds, which are no one log")
    return kinds.pop(), paths


def _together(tables: Sequence[Source]) -> Source:
    """All rows of some tables, each with the name of its file."""
    import pandas as pd

    first, *others = tables
    if any(not one.frame.dtypes.equals(first.frame.dtypes) for one in others):
        raise FairbanditError(f"{first.name} and other files have different columns, or types")
    return replace(first, frame=pd.concat({one.name: one.frame for one in tables}))


def _pieces(path: Path, decision: str, rows: int, separator: str) -> Iterator[Source]:
    """The rows of a table in pieces that cut no decision, unless its rows stand apart."""
    first, rest = 0, None
    try:
        for batch in _batches(path, rows, separator):
            if decision not in batch.schema.names:
                raise FairbanditError(f"{path} has no column {decision!r}")
            rest = batch if rest is None else pa.concat_tables([rest, batch])
            end = pc.index(rest[decision], rest[decision][-1]).as_py()  # which may go on
            if end > 0 and len(rest) >= rows:
                yield source_of(rest[:end], str(path), first)
                first, rest = first + end, rest[end:]
        if rest is not None:
            yield source_of(rest, str(path), first)
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise FairbanditError(f"cannot read {path}: {error}") from error


def _batches(path: Path, rows: int, separator: str) -> Iterator[pa.Table]:
    """The rows of a table, at most so many at a time."""
    if path.suffix.lower() == ".parquet":  # the whole file would be kept with pre_buffer
        with parquet.ParquetFile(path, page_checksum_verification=True, pre_buffer=False) as file:
            for batch in file.iter_batches(rows, use_threads=False):
                yield pa.Table.from_batches([batch])
        return
    separator = "\t" if separator == "tab" else separator
    types = dict.fromkeys(read_header(path, separator), pa.string())  # as `read_table` does
    blocks = csv.open_csv(
        path,
        parse_options=csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        convert_options=csv.ConvertOptions(column_types=types),
    )
    for block in blocks:
        for low in range(0, len(block), rows):
            yield pa.Table.from_batches([block.slice(low, rows)])

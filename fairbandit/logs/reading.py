"""Reads logs, whoever wrote them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from fairbandit.environments.reading import Source, keep, read_header, read_table, source_of
from fairbandit.errors import FairbanditError
from fairbandit.logs.dsjson import read_dsjson
from fairbandit.logs.log import Log
from fairbandit.logs.obp import read_obp
from fairbandit.logs.own import is_own, read_own
from fairbandit.logs.tables import Columns, encoder_of, log_of

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
    columns = Columns(decision, picked, propensity, group, reward, features, score)
    if isinstance(source, (str, PathLike)):
        paths = _files(Path(source))
        kind = _kind(paths)
        if kind == "own":
            return Log.joined([read_own(path) for path in paths])
        if kind == "dsjson":
            return read_dsjson(paths, str(group))
        tables = [read_table(path, (), True, separator, decimal) for path in paths]
    else:
        path, _held = keep(source)  # which lives until the end of this call
        tables = [read_table(path, (), True, separator, decimal)]
    encoder = _encoder(like) or encoder_of(_whole(tables), columns)
    return Log.joined([log_of(table, columns, encoder) for table in tables])


def read_pieces(
    path: str | PathLike[str],
    *,
    rows: int = 250_000,
    separator: str = ",",
    decimal: str = ".",
    like: Log | None = None,
    **columns: Any,
) -> Iterator[Log]:
    """Reads a log that is larger than memory, in pieces.

    A piece of a table has about so many rows; those of a decision stand together in the table. The
    first piece says how features are encoded, unless `like` does, so that later ones may hold no
    other categories. A file of another kind is one piece.

    Args:
        path: a file or a folder, as for `read_log`.
        rows: of a table, in a piece.
        separator, decimal, like, columns: as for `read_log`.

    Yields:
        Consecutive decisions.

    Raises:
        FairbanditError: as `read_log`.
    """
    paths, encoder = _files(Path(path)), _encoder(like)
    if _kind(paths) != "table":
        for one in paths:
            yield read_log(one, **columns)
        return
    chosen = Columns(**columns)
    for one in paths:
        for source in _sources(one, chosen.decision, rows, separator):
            piece = replace(source, decimal=decimal)
            encoder = encoder or encoder_of(piece, chosen)
            yield log_of(piece, chosen, encoder)


def _files(path: Path) -> list[Path]:
    """The files of a log, by name."""
    if not path.is_dir():
        return [path]
    files = [file for file in sorted(path.iterdir()) if file.suffix.lower() in ENDINGS]
    if not files:
        raise FairbanditError(
            f"{path} holds no log; expected files that end in {', '.join(ENDINGS)}"
        )
    return files


def _kind(paths: Sequence[Path]) -> str:
    """What the files of a log are: table, own or dsjson."""
    try:
        kinds = {
            "table" if path.suffix.lower() in TABLES else "own" if is_own(path) else "dsjson"
            for path in paths
        }
    except OSError as error:
        raise FairbanditError(f"cannot read {error.filename}: {error.strerror}") from error
    if len(kinds) > 1:
        raise FairbanditError(
            f"{paths[0].parent} holds files of several kinds, which are no one log"
        )
    return kinds.pop()


def _encoder(like: Log | None) -> Any:
    if like is not None and like.encoder is None:
        raise FairbanditError("like: expected a log that was read from a table")
    return None if like is None else like.encoder


def _whole(tables: Sequence[Source]) -> Source:
    """All rows of some tables, for what encodes them."""
    first = tables[0]
    if len(tables) == 1:
        return first
    import pandas as pd

    if any(dict(one.frame.dtypes) != dict(first.frame.dtypes) for one in tables):
        raise FairbanditError(f"{first.name} and other files have different columns, or types")
    frame = pd.concat([one.frame for one in tables], ignore_index=True)
    return replace(first, name=f"{first.name} and further files", frame=frame)


def _sources(path: Path, decision: str, rows: int, separator: str) -> Iterator[Source]:
    """The rows of a table in pieces that cut no decision, unless its rows stand apart."""
    try:
        with _opened(path, separator, min(rows, 1 << 17)) as (schema, batches):
            if decision not in schema.names:
                raise FairbanditError(f"{path} has no column {decision!r}")
            first, rest = 0, schema.empty_table()
            for batch in chain(batches, [None]):
                if batch is not None:
                    rest = pa.concat_tables([rest, pa.Table.from_batches([batch])])
                while len(rest) >= (rows if batch else 1):
                    names, ends = rest[decision], min(rows, len(rest))
                    if batch or ends < len(rest):  # the last decision may go on
                        ends = pc.index(names, names[ends - 1]).as_py()
                    if ends <= 0:  # it is all of the piece
                        ends = pc.index(pc.equal(names, names[0]), False).as_py()
                    if ends <= 0 and batch:
                        break
                    ends = ends if ends > 0 else len(rest)
                    yield source_of(rest[:ends], str(path), first)
                    first, rest = first + ends, rest[ends:]
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise FairbanditError(f"cannot read {path}: {error}") from error


@contextmanager
def _opened(path: Path, separator: str, rows: int) -> Iterator[tuple[pa.Schema, Any]]:
    """The schema of a table, and its rows in batches."""
    if path.suffix.lower() == ".csv":
        types = dict.fromkeys(read_header(path, separator), pa.string())  # as `read_table` does
        with pa_csv.open_csv(
            path,
            parse_options=pa_csv.ParseOptions(delimiter=separator, newlines_in_values=True),
            convert_options=pa_csv.ConvertOptions(column_types=types),
        ) as reader:
            yield reader.schema, reader
    else:  # the whole file would be kept with pre_buffer
        with pq.ParquetFile(path, page_checksum_verification=True, pre_buffer=False) as file:
            yield file.schema_arrow, file.iter_batches(rows, use_threads=False)

"""Reads logs, whoever wrote them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from fairbandit.environments.reading import keep, read_table, source_of
from fairbandit.errors import FairbanditError
from fairbandit.logs.dsjson import read_dsjson
from fairbandit.logs.log import Log
from fairbandit.logs.obp import read_obp
from fairbandit.logs.own import is_own, read_own
from fairbandit.logs.tables import log_of

ENDINGS = (".jsonl", ".json", ".dsjson", ".csv", ".parquet")
"""How the files of logs are called."""


def read_log(
    source: Any,
    *,
    decision: str = "decision",
    picked: str = "picked",
    propensity: str | None = "propensity",
    group: Any = "group",
    reward: str = "reward",
    features: Sequence[str] | Mapping[str, Any] | None = None,
    score: str | None = None,
    separator: str = ",",
    decimal: str = ".",
) -> Log:
    """Reads logged decisions.

    Args:
        source: one of
            the file or the folder that an agent's `log` names;
            a CSV or Parquet file, or a table of pandas, pyarrow or polars, with a row for each
            candidate;
            the dictionary of bandit feedback of obp;
            a file of Vowpal Wabbit's DSJSON;
            a folder of such files, which is one log.
        decision: the column that says which rows are one pool.
        picked: the column of 1 for the pick of each pool, and 0 for the others.
        propensity: the column of the probability with which each candidate would be picked, or of
            that of the pick alone; None where nobody knows it.
        group: the column of the sensitive group, or a list of several columns; for DSJSON, the
            feature that names the group; for obp, the label of each action's group, where None
            makes each action a group of its own.
        reward: the column of the reward, empty but for picks; and there, too, where none came.
        features: the columns of features, as a list, or a mapping as `environment.columns` takes
            it; None takes all others that can be features. They are encoded as those of a `Table`.
        score: a column of scores by which candidates were judged, for audits.
        separator, decimal: of CSV files.

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
    columns: dict[str, Any] = {
        "decision": decision,
        "picked": picked,
        "propensity": propensity,
        "group": group,
        "reward": reward,
        "features": features,
        "score": score,
    }
    if not isinstance(source, (str, PathLike)):
        memory, kept = keep(source)  # the table lives until it was read
        log = _table(memory, columns, separator, decimal)
        del kept
        return log
    path = Path(source)
    if not path.is_dir():
        return _file(path, columns, separator, decimal)
    files = [file for file in sorted(path.iterdir()) if file.suffix in ENDINGS]
    if not files:
        raise FairbanditError(
            f"{path} holds no log; expected files that end in {', '.join(ENDINGS)}"
        )
    return Log.joined([_file(file, columns, separator, decimal) for file in files])


def _file(path: Path, columns: dict[str, Any], separator: str, decimal: str) -> Log:
    if path.suffix.lower() in (".csv", ".parquet"):
        return _table(path, columns, separator, decimal)
    try:
        own = is_own(path)
    except OSError as error:
        raise FairbanditError(f"cannot read {path}: {error.strerror or error}") from error
    return read_own(path) if own else read_dsjson(path, str(columns["group"]))


def _table(path: Any, columns: dict[str, Any], separator: str, decimal: str) -> Log:
    group = columns["group"]
    needed = [columns[name] for name in ("decision", "picked", "propensity", "reward", "score")]
    needed += [group] if isinstance(group, str) else list(group)
    table = read_table(path, [name for name in needed if name], True, separator, decimal)
    return log_of(table, **columns)[0]


def read_pieces(
    path: str | PathLike[str],
    *,
    rows: int = 1_000_000,
    decision: str = "decision",
    picked: str = "picked",
    propensity: str | None = "propensity",
    group: Any = "group",
    reward: str = "reward",
    features: Sequence[str] | Mapping[str, Any] | None = None,
    score: str | None = None,
) -> Iterator[Log]:
    """Reads a log that is larger than memory, in pieces of about so many rows.

    The rows of a decision stand together. The first piece says how features are encoded, so that
    later ones may hold no other categories.

    Args:
        path: a CSV or Parquet file, or a folder of these, as pyarrow's datasets are.
        rows: of the table, in a piece.
        decision, picked, propensity, group, reward, features, score: as for `read_log`.

    Yields:
        Consecutive decisions.

    Raises:
        FairbanditError: as `read_log`.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    columns: dict[str, Any] = {
        "decision": decision,
        "picked": picked,
        "propensity": propensity,
        "group": group,
        "reward": reward,
        "features": features,
        "score": score,
    }
    kind, encoder, rest, first = ("csv" if _is_csv(Path(path)) else "parquet"), None, [], 0
    try:
        batches = ds.dataset(path, format=kind).to_batches(batch_readahead=1, fragment_readahead=1)
        for batch in batches:
            rest.append(batch)
            if sum(map(len, rest)) < rows:
                continue
            table = pa.Table.from_batches(rest)
            last = table[decision][-1]
            ends = pc.index(table[decision], last).as_py()  # the last decision may go on
            if ends:
                log, encoder = log_of(
                    source_of(table[:ends], str(path), first), **columns, encoder=encoder
                )
                yield log
                first, rest = first + ends, table[ends:].to_batches()
        if rest:
            table = pa.Table.from_batches(rest)
            yield log_of(source_of(table, str(path), first), **columns, encoder=encoder)[0]
    except (pa.ArrowException, OSError) as error:
        raise FairbanditError(f"cannot read {path}: {error}") from error


def _is_csv(path: Path) -> bool:
    return path.suffix == ".csv" or (path.is_dir() and any(path.glob("*.csv")))

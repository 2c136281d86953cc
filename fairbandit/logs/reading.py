"""Reads logs of every kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from fairbandit.errors import FairbanditError, type_of
from fairbandit.files.files import natural_order, sha256
from fairbandit.logs.dsjson import read_dsjson
from fairbandit.logs.features import encoder_of, outcomes
from fairbandit.logs.log import FLAGS, Log
from fairbandit.logs.obp import is_obp, read_obp
from fairbandit.logs.own import is_own, read_own
from fairbandit.logs.tables import PEOPLE, Columns, log_of_table
from fairbandit.notices import listed, noted, remark
from fairbandit.tables.columns import group_columns
from fairbandit.tables.encoder import Encoder
from fairbandit.tables.reading import read_table, table_of
from fairbandit.tables.source import Source, source_of, texts_of

TABLES = (".csv", ".parquet", ".csv.gz", ".parquet.gz")
ENDINGS = (*TABLES, ".jsonl", ".json", ".dsjson", ".json.gz", ".dsjson.gz")
"""The endings of the names of log files."""

_OFFSET = "[T ][0-9:.]+(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)$"
"""How a time with an offset from UTC ends."""

WORDS = dict.fromkeys(["yes", "Yes", "YES", "y", "Y"], "1")
WORDS |= dict.fromkeys(["no", "No", "NO", "n", "N"], "0")
"""The words of a column `picked` that are numbers."""


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
    like: Log | Encoder | None = None,
    exclude: Sequence[str] | None = None,
    missing_values: Sequence[Any] | None = None,
    time: str | None = None,
    bad_lines: str = "error",
    products: Any = None,
    unknown: Sequence[str] | str | None = None,
) -> Log:
    """Reads logged decisions; a notice counts the lines and files that are left out.

    Args:
        source: one of
            the file or the folder that an agent's `log` names;
            a CSV or Parquet file, or a table in memory, with a row for each candidate;
            the dictionary of bandit feedback of obp;
            a file of Vowpal Wabbit's DSJSON, compressed where it ends in .gz;
            a folder of files of one of these kinds, each of which holds whole decisions.
        decision: the column that says which rows are one pool.
        picked: the column of 1 for the pick of each pool, 2, 3, … for further picks of a shortlist,
            and 0 for the others; or of yes and no, or true and false.
        propensity: the column of the probability with which each candidate would be picked, or of
            the pick's probability alone, in its row or in all rows of its pool; None if unknown.
        group: the column of the sensitive group, or a list of several columns; for DSJSON, the
            feature that names the group; for obp, the label of each action's group, where None
            makes each action a group of its own.
        reward: the column of the reward, empty except for picks, and for a missing reward.
        features: the columns of features, as a list, or a mapping or YAML file as
            `environment.columns` takes it; None takes all others that can be features. The features
            and the group are encoded as in a `Table`. For DSJSON, a list of names or namespaces.
        score: a column of scores by which candidates were judged, for audits.
        separator, decimal: of CSV files.
        like: a log, or an encoder, whose features are taken and encoded as there; so an agent
            that learned from one table can be judged by another. None encodes by this table.
        exclude: columns that are not features; for DSJSON, features or namespaces.
        missing_values: the texts that are missing cells of a table, as for `Table`.
        time: the column by which the decisions of a table are sorted: numbers, or times in ISO
            8601, one a decision. It is not a feature.
        bad_lines: `skip` leaves out lines that hold no decision of DSJSON; `error` refuses them.
        products: pairs of columns of a table whose products are features too, or `all`; for DSJSON,
            `shared` multiplies each shared feature by each feature of an action.
        unknown: labels of people whose group is unknown, such as `["undisclosed"]`, beside missing
            cells and `unknown`. All of them are the group `unknown`.

    Returns:
        The log, in the order of `time`, or in the natural order of the files' names (day-2 before
        day-10) and of the lines in each.

    Raises:
        FairbanditError: a file or an argument does not fit, or a value is invalid; the message
            names its row or line.

    >>> table = {"decision": [1, 1, 2, 2], "group": ["a", "b", "b", "a"], "age": [3, 4, 5, 6],
    ...          "picked": [0, 1, 1, 0], "propensity": [0.5, 0.5, 0.5, 0.5],
    ...          "reward": [None, 2.0, 1.0, None]}
    >>> log = read_log(table)
    >>> len(log), log.labels, log.rewards[:, 0].tolist()
    (2, ('a', 'b'), [2.0, 1.0])
    """
    given = dict(locals())
    with noted() as notes:
        log = _read(given)
    return log.replaced(notes=tuple(notes))


def _read(given: Mapping[str, Any]) -> Log:
    """Returns the log for the arguments of `read_log`."""
    source, missing = given["source"], given["missing_values"]
    given = {**given, "unknown": texts_of("unknown", given["unknown"])}
    if is_obp(source):
        return read_obp(source, **_taken("obp", given, "group", "propensity", "unknown"))
    if isinstance(source, (str, PathLike)):
        kind, paths = _files(Path(source))
        if kind == "agent":
            return read_own(paths, str(source), **_taken("an agent", given, "unknown"))
        if kind == "dsjson":
            keys = "group", "features", "exclude", "like", "bad_lines", "products", "unknown"
            return read_dsjson(paths, str(source), **_taken("DSJSON", given, *keys))
        separator = given["separator"]
        tables = [read_table(path, (), True, separator, missing_values=missing) for path in paths]
    else:
        tables = [source_of(table_of(source), missing_values=missing)]
    _taken("a table", given, *[key for key in given if key not in ("source", "bad_lines")])
    columns, time = Columns(*(given[key] for key in Columns._fields)), given["time"]
    groups, like = group_columns(given["group"]), given["like"]
    taken = [name for name in (*columns, time, *groups) if name is not None]
    required = columns.decision, columns.picked, columns.reward
    if wrong := [name for name in (*required, *taken) if not isinstance(name, str)]:
        raise FairbanditError(f"columns: expected their names; got {type_of(wrong[0])}")
    source = _together(tables)
    if not len(source):
        raise FairbanditError(f"{source.name} holds no row")
    unknown = "propensity=null (None in Python) reads a log without probabilities; "
    absent, roles = {*taken} - {*source.frame}, {**columns._asdict(), "time": time}
    named = {"group": groups, **{key: [name] for key, name in roles.items()}}
    lacking = [key for key, names in named.items() if not absent.isdisjoint(names)]
    where = f"set {' '.join(f'{key}=COLUMN' for key in lacking)}; "
    where += unknown * ("propensity" in lacking)
    source.need(taken, where + f"{PEOPLE}; " * (not {"picked", "reward"}.isdisjoint(lacking)))
    words = source.frame.replace({columns.picked: WORDS})
    source = replace(source, frame=words, decimal=given["decimal"])
    expected = "yes or no, true or false, or 1, 2, … for picks and 0 for others"
    fits = source.fits(columns.picked) & ~source.gaps(columns.picked)
    source.require(columns.picked, fits, expected)
    period = None
    if time is not None:
        source, period = _by_time(source, time, columns.decision)
    encoder = like.encoder if isinstance(like, Log) else like
    words = [*given["unknown"], *(encoder.unknown if encoder else ())]
    source = source.with_unknown(groups, words)
    unused = [name for name in FLAGS if name in {*source.frame} - {*taken}]
    flags = [key for key in unused if source.fits(key).all() and (source.numbers(key) == 1).all()]
    if encoder is None:
        excluded = texts_of("exclude", given["exclude"])
        taken += [*flags, *outcomes(source, columns.picked, [*taken, *flags, *excluded])]
        chosen = given["features"], excluded, given["products"], words
        encoder = encoder_of(source, taken, groups, *chosen)
    log = log_of_table(source, columns, groups, encoder, like is not None)
    return log.replaced(**dict.fromkeys(flags, True), period=period)


def is_table(source: Any) -> bool:
    """Whether a source of `read_log` is a table, whose features are encoded when it is read."""
    if isinstance(source, (str, PathLike)):
        return _files(Path(source))[0] == "table"
    return not is_obp(source)


def _files(path: Path) -> tuple[str, list[Path]]:
    """Returns the kind of a log and its files, in the natural order of their names."""
    paths = [path]
    if path.is_dir():
        every = sorted(path.iterdir(), key=lambda file: (natural_order(file.name), file.name))
        paths = [file for file in every if file.name.lower().endswith(ENDINGS)]
        if not paths:
            raise FairbanditError(f"{path} holds no file that ends in {', '.join(ENDINGS)}")
        sizes, hashes = Counter(file.stat().st_size for file in paths), dict[str, Path]()
        for file in paths:  # only files of one size can be copies
            several = sizes[file.stat().st_size] > 1 and file.is_file()
            if several and (copy := hashes.setdefault(sha256(file), file)) != file:
                raise FairbanditError(f"{path} holds {file.name} twice, as {copy.name}")
        if len(paths) > 1:
            ends = f"{paths[0].name} … {paths[-1].name}"
            remark(f"{path}: {len(paths):,} files in the natural order of their names: {ends}")
        known = *ENDINGS, ".lock"
        if others := [file.name for file in every if not file.name.lower().endswith(known)]:
            remark(f"{path}: {len(others):,} other files are left out: {listed(others, 5)}")
    kinds = {
        "table" if file.name.lower().endswith(TABLES) else "agent" if is_own(file) else "dsjson"
        for file in paths
    }
    if len(kinds) > 1:
        raise FairbanditError(f"{path} mixes several kinds of files; a folder holds one kind")
    return kinds.pop(), paths


def _taken(kind: str, given: Mapping[str, Any], *takes: str) -> dict[str, Any]:
    """Returns the arguments that a kind of log takes; others must keep their defaults."""
    defaults: Any = read_log.__kwdefaults__
    others = [key for key in defaults if key not in takes]
    if wrong := [key for key in others if str(given[key]) != str(defaults[key])]:
        path = "a path and unknown, since its lines name the groups, features and rewards"
        only = path if kind == "an agent" else listed(takes)
        raise FairbanditError(f"{listed(wrong)}: a log of {kind} takes only {only}")
    like = given["like"]
    encoder = like.encoder if isinstance(like, Log) else like
    fits = isinstance(encoder, Encoder) if kind == "a table" else encoder is None
    if like is not None and not fits:
        raise FairbanditError(
            "like: expected a log or an encoder; a table needs an encoder or a log that was read "
            "from a table, and DSJSON a log of DSJSON"
        )
    chosen = "features", "exclude", *["products"] * (kind == "a table")
    if like is not None and (wrong := [key for key in chosen if given[key] is not None]):
        raise FairbanditError(
            f"{listed(wrong)}: expected None with like=…, which chooses the features"
        )
    return {key: given[key] for key in takes}


def _by_time(source: Source, time: str, decision: str) -> tuple[Source, tuple[str, str] | None]:
    """Sorts the rows of a table by a column that is constant within a decision.

    Returns the first and the last time, too, unless the column holds numbers. Times without an
    offset are in an unknown zone, so that they cannot be compared with times that have one.
    """
    import pandas as pd

    zone = ""
    if source.is_integer(time):
        times = source.frame[time].reset_index(drop=True)
    elif source.fits(time).all():
        times = pd.Series(source.numbers(time))
    else:
        cells = source.frame[time]
        times = pd.Series(
            pd.to_datetime(
                cells.to_numpy(dtype=object), format="ISO8601", utc=True, errors="coerce"
            )
        )
        known, offsets = ~source.gaps(time), cells.str.contains(_OFFSET).fillna(False)
        if (offsets[known].nunique()) > 1:
            source.require(time, offsets.to_numpy(bool), "an offset such as Z, as other times have")
        zone = "+00:00" if offsets.any() else ""
        if not zone:
            remark(
                f"{source.name}, column {time!r}: the times have no offset: their zone is unknown"
            )
    if not zone and pd.api.types.is_numeric_dtype(times) and len(times.dropna()):
        low, high = times.min(), times.max()
        if low > 1e8 and high > 100 * low:
            problem = f"{low:.0f} and {high:.0f} are times of different units, as seconds and ms"
            raise FairbanditError(f"{source.name}, column {time!r}: {problem}")
    keys = [source.frame.index.get_level_values(0), source.frame[decision].to_numpy()]
    first = times.groupby(keys, dropna=False).transform("first")
    expected = "one number a decision, or one time of ISO 8601 such as 2024-05-31T08:00:00Z"
    source.require(time, (first == times).to_numpy(dtype=bool, na_value=False), expected)
    dates = pd.api.types.is_datetime64_any_dtype(times)
    ends = [f"{end:%Y-%m-%d %H:%M:%S}{zone}" for end in (times.min(), times.max()) if dates]
    period = (ends[0], ends[1]) if ends else None
    return replace(source, frame=source.frame.iloc[times.argsort(kind="stable")]), period


def _together(tables: Sequence[Source]) -> Source:
    """Concatenates tables; the index holds the name of each row's file.

    Files may differ in the order of columns, and in the type of a column of numbers or of gaps.
    """
    import pandas as pd

    first, *others = tables
    for table in others:
        if lacking := sorted({*first.frame} ^ {*table.frame}):
            names = listed([*map(repr, lacking)])
            raise FairbanditError(f"{first.name} and {table.name} differ in the columns {names}")
    for name in first.frame if others else ():
        known = [table for table in tables if not table.gaps(name).all()]
        texts = [table for table in known if table.is_text(name)]
        if texts and len(texts) < len(known):
            number = next(table for table in known if not table.is_text(name))
            one, other = (table.frame[name].dtype for table in (number, texts[0]))
            raise FairbanditError(
                f"column {name!r} is of the type {one} in {number.name} and {other} in "
                f"{texts[0].name}"
            )
        kinds = {table.frame[name].dtype for table in known}
        kind = np.dtype(np.float64) if len(kinds) > 1 else [*kinds, first.frame[name].dtype][0]
        for table in tables:  # frames of their own, made for this call
            if table.frame[name].dtype != kind:
                table.frame[name] = table.frame[name].astype(kind)
    frames = {table.name: table.frame[[*first.frame]] for table in tables}
    return replace(first, frame=pd.concat(frames))

"""Reads logs of every kind."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.errors import FairbanditError, type_of
from fairbandit.logs.formats import read_dsjson, read_obp
from fairbandit.logs.log import FLAGS, Log
from fairbandit.logs.own import is_own, read_own
from fairbandit.logs.propensities import ESTIMATE, with_propensities
from fairbandit.logs.tables import PEOPLE, Columns, log_of_table, period_of
from fairbandit.notices import listed, noted, remark
from fairbandit.tables import cells
from fairbandit.tables.columns import FEW, chosen_columns, codes_of, group_columns, resolve_columns
from fairbandit.tables.encoder import Encoder
from fairbandit.tables.files import TABLES, files_in
from fairbandit.tables.labels import JOINED, NUMBER
from fairbandit.tables.reading import read_table, texts_of

if TYPE_CHECKING:
    import pandas as pd  # imported where it is used, since that takes a third of a second

ENDINGS = (*TABLES, ".jsonl", ".json", ".dsjson", ".json.gz", ".dsjson.gz")
"""The endings of the names of log files."""

TABLE, AGENT, DSJSON, OBP = "a table", "an agent", "DSJSON", "obp"
"""The kinds of logs, as messages call them."""

_ARGUMENTS: dict[str, Sequence[str]] = {
    AGENT: ["unknown"],
    OBP: ["group", "propensity", "unknown"],
    DSJSON: ["group", "features", "exclude", "like", "bad_lines", "products", "unknown"],
}
"""The arguments of `read_log` that each kind takes; a table takes all others."""

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
    thousands: str | None = None,
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
            `estimate`, unless a column has this name, fits them to the picks of a table or of obp
            by a conditional logit. They are right only if picks depend on logged columns alone.
        group: the column of the sensitive group, or a list of several columns; for DSJSON, the
            feature that names the group; for obp, the label of each action's group, where None
            makes each action a group of its own.
        reward: the column of the reward, empty except for picks, and for a missing reward.
        features: the columns of features, as a list, or a mapping or YAML file as
            `environment.columns` takes it; None takes all others that can be features. The features
            and the group are encoded as in a `Table`. For DSJSON, a list of names or namespaces.
        score: a column of scores by which candidates were judged, for audits.
        separator, decimal, thousands: as for `fairbandit.read_table`.
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
    arguments = dict(locals())
    with noted() as notes:
        log = _read(arguments)
    return replace(log, notes=tuple(notes))


def _read(arguments: dict[str, Any]) -> Log:
    source, kind = arguments["source"], _kind(arguments["source"])
    arguments["unknown"] = texts_of("unknown", arguments["unknown"])
    options = _options(kind, arguments)
    if kind == TABLE:
        return _read_table(source, options)
    if kind == OBP:
        if arguments["propensity"] != ESTIMATE:
            return read_obp(source, **options)
        return with_propensities(read_obp(source, **{**options, "propensity": None}))
    paths = files_in(Path(source), ENDINGS) if Path(source).is_dir() else [Path(source)]
    return (read_own if kind == AGENT else read_dsjson)(paths, str(source), **options)


def _read_table(source: Any, options: Mapping[str, Any]) -> Log:
    columns, time = Columns(*(options[key] for key in Columns._fields)), options["time"]
    groups, like = group_columns(options["group"]), options["like"]
    taken = [name for name in (*columns, time, *groups) if name is not None]
    required = columns.decision, columns.picked, columns.reward
    if wrong := [name for name in (*required, *taken) if not isinstance(name, str)]:
        raise FairbanditError(f"columns: expected their names; got {type_of(wrong[0])}")
    marks = "separator", "decimal", "thousands", "missing_values"
    source = read_table(source, **{key: options[key] for key in marks})
    if not len(source):
        raise FairbanditError(f"{cells.name_of(source)} holds no row")
    if estimate := columns.propensity == ESTIMATE and ESTIMATE not in source:
        columns = columns._replace(propensity=None)
        taken.remove(ESTIMATE)
    absent, roles = {*taken} - {*source}, {**columns._asdict(), "time": time}
    named = {"group": groups, **{key: [name] for key, name in roles.items()}}
    lacking = [key for key, names in named.items() if not absent.isdisjoint(names)]
    where = f"set {' '.join(f'{key}=COLUMN' for key in lacking)}; "
    if "propensity" in lacking:
        where += "propensity=null (None in Python) reads a log without probabilities; "
    if not {"picked", "reward"}.isdisjoint(lacking):
        where += f"{PEOPLE}; "
    cells.need(source, taken, where)
    if not cells.is_number(source, columns.picked):
        source = source.assign(**{columns.picked: source[columns.picked].replace(WORDS)})
    expected = "yes or no, true or false, or 1, 2, … for picks and 0 for others"
    fits = cells.fits(source, columns.picked) & ~cells.gaps(source, columns.picked)
    cells.require(source, columns.picked, fits, expected)
    period = None
    if time is not None:
        source, period = _by_time(source, time, columns.decision)
    encoder = like.encoder if isinstance(like, Log) else like
    words = [*options["unknown"], *(encoder.unknown if encoder else ())]
    source = cells.with_unknown(source, groups, words)
    unused = [name for name in FLAGS if name in {*source} - {*taken}]
    numeric = [name for name in unused if cells.is_number(source, name)]
    flags = [name for name in numeric if (cells.numbers(source, name) == 1).all()]
    if encoder is None:
        excluded = texts_of("exclude", options["exclude"])
        taken += [*flags, *_outcomes(source, columns.picked, [*taken, *flags, *excluded])]
        chosen = options["features"], excluded, options["products"], words
        encoder = _encoder_of(source, taken, groups, *chosen)
    log = log_of_table(source, columns, groups, encoder, like is not None)
    adaptive, draws_models = (name in flags for name in FLAGS)
    log = replace(log, adaptive=adaptive, draws_models=draws_models, period=period)
    return with_propensities(log) if estimate else log


def is_table(source: Any) -> bool:
    """Whether a source of `read_log` is a table, whose features are encoded when it is read."""
    return _kind(source) == TABLE


def _kind(source: Any) -> str:
    if not isinstance(source, (str, PathLike)):
        is_obp = isinstance(source, Mapping) and not {"pscore", "n_rounds"}.isdisjoint(source)
        return OBP if is_obp else TABLE
    path = Path(source)
    files = [*path.iterdir()] if path.is_dir() else [path]
    kinds = {
        TABLE if file.name.lower().endswith(TABLES) else AGENT if is_own(file) else DSJSON
        for file in files
        if len(files) == 1 or file.name.lower().endswith(ENDINGS)
    }
    if len(kinds) > 1:
        raise FairbanditError(f"{path} mixes several kinds of files; a folder holds one kind")
    return kinds.pop() if kinds else DSJSON


def _options(kind: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments that a kind of log takes; others must keep their defaults."""
    defaults: Any = read_log.__kwdefaults__
    takes = _ARGUMENTS.get(kind, [key for key in defaults if key != "bad_lines"])
    different = [key for key in defaults if str(arguments[key]) != str(defaults[key])]
    if wrong := [key for key in different if key not in takes]:
        path = "a path and unknown, since its lines name the groups, features and rewards"
        only = path if kind == AGENT else listed(takes)
        raise FairbanditError(f"{listed(wrong)}: a log of {kind} takes only {only}")
    like = arguments["like"]
    encoder = like.encoder if isinstance(like, Log) else like
    fits = isinstance(encoder, Encoder) if kind == TABLE else encoder is None
    if like is not None and not fits:
        raise FairbanditError(
            "like: expected a log or an encoder; a table needs an encoder or a log that was read "
            "from a table, and DSJSON a log of DSJSON"
        )
    chosen = "features", "exclude", *["products"] * (kind == TABLE)
    if like is not None and (wrong := [key for key in chosen if arguments[key] is not None]):
        raise FairbanditError(
            f"{listed(wrong)}: expected None with like=…, which chooses the features"
        )
    return {key: arguments[key] for key in takes}


def _by_time(
    source: pd.DataFrame, time: str, decision: str
) -> tuple[pd.DataFrame, tuple[str, str] | None]:
    """Sorts rows by a column; also returns the first and the last time, unless it holds numbers.

    Times without an offset are in an unknown zone, so they are not compared with times that have
    one.
    """
    import pandas as pd

    where, period = f"{cells.name_of(source)}, column {time!r}", None
    cells.check_exact(source, time)
    if cells.fits(source, time).all():
        times = cells.exact(source, time).reset_index(drop=True)
        if len(times.dropna()) and times.min() > 1e8 and times.max() > 100 * times.min():
            ends = f"{times.min():.0f} and {times.max():.0f}"
            problem = f"{ends} are times of different units, as seconds and ms"
            raise FairbanditError(f"{where}: {problem}")
    else:
        texts = source[time]
        plain = texts.to_numpy(dtype=object)
        times = pd.Series(pd.to_datetime(plain, format="ISO8601", utc=True, errors="coerce"))
        known, offsets = ~cells.gaps(source, time), texts.str.contains(_OFFSET).fillna(False)
        if offsets[known].nunique() > 1:
            expected = "an offset such as Z, as other times have"
            cells.require(source, time, offsets.to_numpy(bool), expected)
        zone = "+00:00" if offsets.any() else ""
        if not zone:
            remark(f"{where}: the times have no offset: their zone is unknown")
        if times.notna().all():
            period = period_of(times, zone)
    keys = [cells.files_of(source), source[decision].to_numpy()]
    first_of = times.groupby(keys, dropna=False).transform("first")
    expected = "one number a decision, or one time of ISO 8601 such as 2024-05-31T08:00:00Z"
    valid = (first_of == times).to_numpy(dtype=bool, na_value=False)
    cells.require(source, time, valid, expected)
    return source.iloc[times.argsort(kind="stable")], period


def _encoder_of(
    source: pd.DataFrame,
    taken: Sequence[str],
    groups: Sequence[str],
    features: Any,
    exclude: list[str],
    products: Any,
    unknown: Sequence[str],
) -> Encoder:
    """Returns the encoder of a table's groups and of its features, which have no other role."""
    chosen = chosen_columns(features) if isinstance(features, (Mapping, str)) else None
    names = [*(chosen or texts_of("features", features))]
    cells.need(source, names)
    roles = {*taken} - {*(groups if chosen else ())}
    if wrong := [repr(name) for name in names if name in roles]:
        raise FairbanditError(f"features: {listed(wrong)} have another role in the log")
    if features is not None:
        taken = [*taken, *(name for name in cells.about(source).columns if name not in names)]
    remedy = "features=[…] chooses others" if features is None else ""
    specs, left_out = resolve_columns(source, chosen, taken, exclude, remedy)
    if wrong := [f"{name!r} ({left_out[name]})" for name in names if name in left_out]:
        raise FairbanditError(f"{cells.name_of(source)}: {listed(wrong)} cannot be features")
    columns = {name: specs[name] for name in names or specs if name in specs}
    options: dict[str, Any] = {"products": products, "bias": True}
    if not {*groups}.isdisjoint(exclude):  # the features do not hold the whole label
        columns |= {name: codes_of(source, name) for name in groups if name not in exclude}
        return Encoder.fitted(columns, source, **options)
    columns |= {name: _codes(source, name) for name in groups}
    labels = _codes(source, JOINED.join(groups))
    options |= {"groups": groups, "labels": labels, "unknown": unknown}
    return Encoder.fitted(columns, source, groups, **options)


def _codes(source: pd.DataFrame, name: str) -> list[str]:
    """Returns the labels in a column; if all are numbers, by value."""
    labels = {*cells.labels(source, name).tolist()}
    numbers = all(re.fullmatch(NUMBER, label) for label in labels)
    return sorted(labels, key=float if numbers else None)


def _outcomes(source: pd.DataFrame, picked: str, taken: Sequence[str]) -> list[str]:
    """Returns the columns that repeat the picks or are known of picks alone, as outcomes are.

    Numbers that only picks distinguish, such as outcomes with 0 for other candidates, are noted.
    """
    table, picks = cells.name_of(source), cells.numbers(source, picked)
    rest, outcomes, doubtful = picks == 0, list[str](), list[str]()
    for name in (name for name in source if name not in taken):
        if (cells.gaps(source, name) == rest).all():
            outcomes.append(name)
        elif cells.is_number(source, name):
            values = cells.numbers(source, name)
            if np.array_equal(values, picks):
                outcomes.append(name)
            elif rest.sum() >= FEW and np.ptp(values[rest]) == 0 < np.ptp(values):
                doubtful.append(repr(name))
    if doubtful:
        remark(
            f"{table}: these features may be outcomes, since all candidates that were not picked "
            f"have one value: {listed(doubtful)}; exclude=[…] leaves columns out"
        )
    if outcomes:
        names = listed([*map(repr, outcomes)])
        remark(f"{table}: outcomes, which are known of picks alone, are left out: {names}")
    return outcomes

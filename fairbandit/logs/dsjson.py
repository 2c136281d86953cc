"""Vowpal Wabbit's DSJSON, as `--cb_explore_adf` reads it and its logs hold it."""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fairbandit.environments.reading import Source, listed, remark, texts_of
from fairbandit.errors import FairbanditError
from fairbandit.files import open_regular
from fairbandit.logs.chain import of_line
from fairbandit.logs.log import Log
from fairbandit.logs.tables import Pool, log_of_pools, number

LEFT_OUT = {
    "_skipLearn": "never carried out (_skipLearn)",
    "_outcomes": "of conditional bandits (_outcomes)",
}
"""The keys of lines that are left out, and why."""


def read_dsjson(
    paths: Sequence[Path],
    name: str,
    *,
    group: str,
    features: Any = None,
    exclude: Any = None,
    like: Log | None = None,
    time: str | None = None,
    bad_lines: str = "error",
) -> Log:
    """The log of files with a decision a line: `_label_cost, _labelIndex, a, p, c`.

    A feature is a number, or a text, which is 1 for its name and text together; names of nested
    features are joined by a point. Shared features join those of each action. The reward is
    −`_label_cost`. The feature of an action that names its group, such as `group` or `user.region`,
    is a text, a number, or a namespace with one feature, whose name is the group.

    Lines without `_label_cost`, such as those of rewards that came late, and those of `LEFT_OUT`
    are left out with a notice that counts them. `read_log` describes the arguments.
    """
    if bad_lines not in ("error", "skip") or not isinstance(group, str):
        raise FairbanditError(
            "DSJSON: expected bad_lines=error or skip, and the name of one feature as group; got "
            f"{bad_lines!r} and {group!r}"
        )
    pools, times, lines = list[Pool](), list[str](), Counter[str]()
    for path in paths:
        for count, line in enumerate(_lines(path), 1):
            where = f"{path}, line {count}: no decision of DSJSON"
            if not line.strip():
                continue
            try:
                with of_line(f"{where} (bad_lines=skip leaves such lines out)"):
                    record = json.loads(line)
                    reason = _reason(record)
                    at = str(record[time]) if time and not reason else ""
                    found = [] if reason else [_pool(record, str(path), count, group)]
            except FairbanditError:
                if bad_lines == "error":
                    raise
                record, reason, found = {}, "bad (bad_lines=skip)", []
            if record.get("pdrop"):
                raise FairbanditError(f"{where}s: `pdrop` says that some were left out before")
            lines[reason] += 1
            pools += found
            times += [at] * len(found)
    reasons = ", ".join(f"{lines[reason]:,} {reason}" for reason in lines if reason)
    total = lines.total()
    missing = f"{total - lines['']:,} of {total:,} lines are left out: {reasons}"
    if reasons and not pools:
        raise FairbanditError(f"{name} holds no decision; {missing}")
    if reasons:
        remark(f"{name}: {missing}")
    if time is not None:
        pools = _by_time(pools, time, times, name)
    rows = [context for pool in pools for context in pool.contexts]
    every = list(dict.fromkeys(chain.from_iterable(rows)))
    columns = _columns(name, every, features, exclude, like)
    places, contexts = (
        {one: at for at, one in enumerate(columns)},
        np.zeros((len(rows), len(columns))),
    )
    for values, row in zip(contexts, rows, strict=True):
        for one in row.keys() & places.keys():
            values[places[one]] = row[one]
    return log_of_pools(pools, name, contexts, features=tuple(columns))


def _lines(path: Path) -> Iterator[bytes]:
    with open_regular(path) as file:
        try:
            yield from gzip.GzipFile(fileobj=file) if path.suffix.lower() == ".gz" else file
        except (OSError, EOFError, zlib.error) as error:
            raise FairbanditError(f"cannot read {path}: {error}") from error


def _reason(record: Any) -> str:
    """Why a line is left out; empty for a decision."""
    if not isinstance(record, dict):
        raise ValueError("expected an object of JSON")
    reasons = [reason for key, reason in LEFT_OUT.items() if record.get(key)]
    if not reasons and "_label_cost" not in record:
        return "without a cost (_label_cost)"
    return next(iter(reasons), "")


def _by_time(pools: Sequence[Pool], time: str, times: Sequence[str], name: str) -> list[Pool]:
    import pandas as pd

    places = [[pool.file for pool in pools], [pool.line - 1 for pool in pools]]
    cells = pd.Series(times, pd.MultiIndex.from_arrays(places), pd.ArrowDtype(pa.string()))
    found = Source(name, [time], cells.to_frame(time), unit="line").times(time)
    return [pools[at] for at in np.argsort(found, kind="stable")]


def _columns(
    name: str, every: Sequence[str], features: Any, exclude: Any, like: Log | None
) -> Sequence[str]:
    """The features that are taken, of all that the lines have."""
    if like is None:
        out = _named(name, every, texts_of("exclude", exclude))
        chosen = every if features is None else _named(name, every, texts_of("features", features))
        return [one for one in chosen if one not in out]
    new = [one for one in every if one not in like.features]
    if like.encoder is not None or len(new) == len(every):
        raise FairbanditError(f"like: expected a log of DSJSON that shares features with {name}")
    if new:
        remark(f"{name}: {len(new):,} features that `like` lacks are left out: {listed(new, 5)}")
    return like.features


def _named(name: str, every: Sequence[str], asked: Sequence[str]) -> dict[str, None]:
    """The features that have one of some names, or lie in a namespace of such a name."""
    found = dict[str, None]()
    for one in asked:
        own = [key for key in every if key == one or f"{key.split('=')[0]}.".startswith(f"{one}.")]
        if not own:
            raise FairbanditError(f"{name} has no feature {one!r}; it has {listed(every, 10)}")
        found |= dict.fromkeys(own)
    return found


def _pool(record: Any, file: str, line: int, group: str) -> Pool:
    """The decision of a line, with the features of each action as a mapping."""
    actions, pick = record["c"]["_multi"], record["_labelIndex"]
    chances = dict(zip(record["a"], record["p"], strict=True))
    label = number(record["_label_probability"], "_label_probability")
    if record.get("_label_Action", pick + 1) != pick + 1:
        raise ValueError("`_label_Action` is not `_labelIndex` + 1")
    if len(chances) != len(actions) or not abs(label - chances[pick + 1]) <= 1e-4 * label:
        raise ValueError("`a` is no order of actions, or `_label_probability` is not the pick's")
    shared, labels, contexts = _encoded(_leaves(record["c"])), [], []
    for action in actions:
        leaves = dict(_leaves(action))
        of_group = [key for key in leaves if f"{key}.".startswith(f"{group}.")]
        if len(of_group) != 1:
            raise ValueError(f"an action has no {group!r}, which is to name its group")
        (key,) = of_group
        named = key == group or isinstance(leaves[key], str)
        labels.append(str(leaves[key]) if named else key.removeprefix(f"{group}."))
        own = (leaf for leaf in leaves.items() if leaf[0].partition(".")[0] != group)
        contexts.append(shared | _encoded(own))
    propensities = [chances[place] for place in range(1, len(actions) + 1)]
    name = str(record.get("EventId", ""))
    pool = Pool(file, line, name, labels, [pick], propensities, contexts)
    pool.reward(pick, 0.0 - number(record["_label_cost"], "_label_cost"))
    return pool


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The texts and numbers within a JSON value, each with its name."""
    if isinstance(value, (dict, list)):
        entries: Any = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in entries:
            if not str(key).startswith("_"):
                yield from _leaves(inner, f"{name}.{key}" if name else str(key))
    elif value is not None:
        yield name, value


def _encoded(leaves: Iterator[tuple[str, Any]]) -> dict[str, float]:
    """Features as numbers."""
    return dict(
        (f"{key}={value}", 1.0) if isinstance(value, str) else (key, number(value, key))
        for key, value in leaves
    )

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

from fairbandit.environments.reading import listed, remark, texts_of
from fairbandit.errors import FairbanditError
from fairbandit.files import open_regular
from fairbandit.logs.chain import of_line
from fairbandit.logs.log import Log
from fairbandit.logs.tables import Pool, log_of_pools, number


def read_dsjson(
    paths: Sequence[Path], name: str, *, group: str, bad_lines: str = "error", **choice: Any
) -> Log:
    """The log of files with a decision a line: `_label_cost, _labelIndex, a, p, c`.

    A feature is a number, or a text, which is 1 for its name and text together; names of nested
    features are joined by a point. Shared features join those of each action. The reward is
    −`_label_cost`. The feature of an action that names its group, such as `group` or `user.region`,
    is a text, a number, or a namespace with one feature, whose name is the group.

    Lines that hold no such decision, as `_reason` says, are left out, and a notice counts them.
    `read_log` has the arguments; `choice` is features, exclude and like.
    """
    import pandas as pd

    if bad_lines not in ("error", "skip"):
        raise FairbanditError(f"bad_lines: expected error or skip, got {bad_lines!r}")
    pools, lines = list[Pool](), Counter[str]()
    for path in paths:
        for count, line in enumerate(_lines(path), 1):
            if not line.strip():
                continue
            try:
                with of_line(f"{path}, line {count}: no decision of DSJSON (see bad_lines)"):
                    record = json.loads(line)
                    if not (reason := _reason(record)):
                        pools.append(_pool(record, str(path), count, str(group)))
            except FairbanditError:
                if bad_lines == "error":
                    raise
                reason = "bad (bad_lines=skip)"
            lines[reason] += 1
    if reasons := ", ".join(f"{lines[reason]:,} {reason}" for reason in lines if reason):
        total = lines.total()
        remark(f"{name}: {total - len(pools):,} of {total:,} lines are left out: {reasons}")
    rows = list(chain.from_iterable(pool.contexts for pool in pools))
    every = list(dict.fromkeys(chain.from_iterable(rows)))
    columns = _columns(name, every, **choice)
    contexts = pd.DataFrame(rows, columns=columns, dtype=np.float64).fillna(0.0).to_numpy()
    return log_of_pools(pools, name, contexts, features=tuple(columns))


def _lines(path: Path) -> Iterator[bytes]:
    with open_regular(path) as file:
        try:
            yield from gzip.GzipFile(fileobj=file) if path.suffix.lower() == ".gz" else file
        except (OSError, EOFError, zlib.error) as error:
            raise FairbanditError(f"cannot read {path}: {error}") from error


def _reason(record: dict[str, Any]) -> str:
    """Why a line is left out; empty for a decision."""
    if record.get("_skipLearn"):
        return "never carried out (_skipLearn)"
    if "_outcomes" in record:
        return "of conditional bandits (_outcomes)"
    return "" if "_label_cost" in record else "without a cost (_label_cost)"


def _columns(
    name: str, every: list[str], features: Any = None, exclude: Any = None, like: Log | None = None
) -> list[str]:
    """The features that are taken, of all that the lines have."""
    if like is None:
        out = _named(name, every, texts_of("exclude", exclude))
        chosen = every if features is None else _named(name, every, texts_of("features", features))
        return [one for one in chosen if one not in out]
    known = {*like.features}
    if new := [one for one in every if one not in known]:
        if len(new) == len(every):
            raise FairbanditError(f"like: expected a log that shares features with {name}")
        remark(f"{name}: {len(new):,} features that `like` lacks are left out: {listed(new, 5)}")
    return [*like.features]


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
    if record.get("_label_Action", pick + 1) != pick + 1 or record.get("pdrop"):
        raise ValueError("`_label_Action` is not `_labelIndex` + 1, or `pdrop` left out decisions")
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

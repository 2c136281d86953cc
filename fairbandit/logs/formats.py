"""Logs of other programs: Vowpal Wabbit's DSJSON, and obp's dictionary of bandit feedback."""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import chain, product
from pathlib import Path
from typing import Any, NotRequired

import msgspec
import numpy as np

from fairbandit.errors import FairbanditError
from fairbandit.files.files import open_regular
from fairbandit.files.formats import Natural, Number, mapping
from fairbandit.logs.chain import of_line
from fairbandit.logs.log import Floats, Log
from fairbandit.logs.tables import Pool, log_of_pools
from fairbandit.notices import listed, remark
from fairbandit.tables.cells import LARGEST
from fairbandit.tables.labels import JOINED
from fairbandit.tables.reading import texts_of

NAME = "bandit feedback of obp"

MOST_ACTIONS = 10_000
"""The largest number of one-hot actions, each of which is a candidate of every pool."""

_STATUS: Any = mapping(_skipLearn=NotRequired[bool | None])
_DECISION: Any = mapping(
    _label_cost=Number, _label_probability=Number, _labelIndex=Natural, a=list[int], p=list[Number]
)
"""The fields of a decision of DSJSON with one type; `c` holds the features."""


def read_dsjson(
    paths: Sequence[Path],
    name: str,
    *,
    group: str,
    bad_lines: str,
    like: Log | None,
    products: Any,
    unknown: Sequence[str],
    **chosen: Any,
) -> Log:
    """Returns the log of files with a decision a line: `_label_cost, _labelIndex, a, p, c`.

    A feature is a number, or a text, which is 1 for its name and text together; points join the
    names of nested features. An action also has the shared features. The group of an action is a
    text, a number, or the name of the one feature in a namespace. A log that is `like` another log
    has its products.
    """
    import pandas as pd

    if bad_lines not in ("error", "skip"):
        raise FairbanditError(f"bad_lines: expected error or skip, got {bad_lines!r}")
    if products not in (None, "shared"):
        raise FairbanditError(f"products: expected 'shared' of DSJSON, got {products!r}")
    multiplies = products == "shared"
    if like is not None:
        multiplies = any(JOINED in feature for feature in like.features)
    pools, left_out = list[Pool](), Counter[str]()
    for path, number, line in _lines(paths):
        try:
            with of_line(f"{path}, line {number}: not a decision of DSJSON (see bad_lines)"):
                record = json.loads(line)
                if reason := _reason(record):
                    left_out[reason] += 1
                else:
                    pools.append(_pool(record, str(path), number, str(group), multiplies))
        except FairbanditError:
            if bad_lines == "error":
                raise
            left_out["bad (bad_lines=skip)"] += 1
    if lines := left_out.total():
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in left_out.items())
        remark(f"{name}: {lines:,} of {lines + len(pools):,} lines are left out: {reasons}")
    if pools and all(label is None for pool in pools for label in pool.labels):
        raise FairbanditError(f"{name}: no action has {group!r}, which must name its group")
    rows = list(chain.from_iterable(pool.contexts for pool in pools))
    names = dict.fromkeys(chain.from_iterable(rows))
    if like is None:
        columns = _chosen(name, list(names), **chosen)
    else:
        columns, known = [*like.features], {*like.features}
        if new := [key for key in names if key not in known]:
            if len(new) == len(names):
                raise FairbanditError(f"like: expected a log that shares features with {name}")
            lacking = f"{len(new):,} features that `like` lacks are left out"
            remark(f"{name}: {lacking}: {listed(new, 5)}")
    frame = pd.DataFrame(rows, columns=columns, dtype=np.float64)
    gaps = frame.isna()
    is_indicator = ((frame == 1) | gaps).all() & ~gaps.all()
    numbers = [
        f"{count:,} of {key!r}"
        for key, count in gaps.sum()[~is_indicator].items()
        if count and "=" not in str(key) and JOINED not in str(key)
    ]
    if numbers:
        remark(f"{name}: numbers that actions lack become 0: {listed(numbers)}")
    further: Any = {"columns": [str(group)], "features": tuple(columns), "unknown": unknown}
    return log_of_pools(pools, name, frame.fillna(0.0).to_numpy(), **further)


def _lines(paths: Iterable[Path]) -> Iterator[tuple[Path, int, bytes]]:
    """Yields each line that is not blank with its file and its number."""
    for path in paths:
        with open_regular(path) as file:
            lines = gzip.GzipFile(fileobj=file) if path.suffix.lower() == ".gz" else file
            try:
                yield from ((path, n, line) for n, line in enumerate(lines, 1) if line.strip())
            except (OSError, EOFError, zlib.error) as error:
                raise FairbanditError(f"cannot read {path}: {error}") from error


def _reason(record: Any) -> str:
    """Returns the reason why a line is left out, or "" for a decision."""
    if msgspec.convert(record, _STATUS).get("_skipLearn"):
        return "never carried out (_skipLearn)"
    if "_outcomes" in record:
        return "of conditional bandits (_outcomes)"
    return "" if "_label_cost" in record else "without a cost (_label_cost)"


def _chosen(log: str, names: list[str], *, features: Any, exclude: Any) -> list[str]:
    """Returns the chosen features; a name also stands for all features in its namespace."""

    def matching(wanted: list[str]) -> dict[str, None]:
        keys = dict[str, None]()
        for name in wanted:
            found = [k for k in names if k == name or f"{k.split('=')[0]}.".startswith(f"{name}.")]
            if not found:
                lacking = f"{log} lacks the feature {name!r}"
                raise FairbanditError(f"{lacking}; it has {listed(names, 10)}")
            keys |= dict.fromkeys(found)
        return keys

    excluded = matching(texts_of("exclude", exclude))
    kept = names if features is None else matching(texts_of("features", features))
    return [key for key in kept if key not in excluded]


def _pool(record: Any, file: str, line: int, group: str, products: bool) -> Pool:
    """Returns the decision of a line, with the features of each action as a mapping."""
    msgspec.convert(record, _DECISION)  # raises an error
    actions, pick = record["c"]["_multi"], record["_labelIndex"]
    chances = dict(zip(record["a"], record["p"], strict=True))
    chance = record["_label_probability"]
    if record.get("_label_Action", pick + 1) != pick + 1 or record.get("pdrop"):
        raise ValueError("`_label_Action` is not `_labelIndex` + 1, or `pdrop` left out decisions")
    if len(chances) != len(actions) or not abs(chance - chances[pick + 1]) <= 1e-4 * chance:
        raise ValueError("`a` is not an order of actions, or `_label_probability` not the pick's")
    shared = _encoded(_leaves(record["c"]))
    labels, contexts = list[str | None](), []
    for action in actions:
        leaves = dict(_leaves(action))
        of_group = [key for key in leaves if f"{key}.".startswith(f"{group}.")]
        if len(of_group) > 1:
            raise ValueError(f"an action has several features {group!r}, which must name its group")
        labels.append(None)  # the group is unknown
        for key in of_group:
            named = key == group or isinstance(leaves[key], str)
            labels[-1] = str(leaves[key]) if named else key.removeprefix(f"{group}.")
        x = _encoded(leaf for leaf in leaves.items() if leaf[0].partition(".")[0] != group)
        pairs = product(shared.items(), x.items()) if products else ()
        contexts.append(shared | x | {f"{a}{JOINED}{b}": u * v for (a, u), (b, v) in pairs})
    propensities = [chances[place] for place in range(1, len(actions) + 1)]
    name, picks = str(record.get("EventId", "")), {pick: 0.0 - record["_label_cost"]}
    return Pool(file, line, name, labels, propensities, picks, contexts)


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the texts and numbers within a JSON value with their names."""
    if isinstance(value, (dict, list)):
        entries: Any = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in entries:
            if not str(key).startswith("_"):
                yield from _leaves(inner, f"{name}.{key}" if name else str(key))
    elif value is not None and str(value) not in ("NaN", "nan"):
        yield name, value


def _encoded(leaves: Iterable[tuple[str, Any]]) -> dict[str, float]:
    features = dict[str, float]()
    for key, value in leaves:
        if isinstance(value, str):
            features[f"{key}={value}"] = 1.0
        elif abs(value) <= LARGEST:
            features[key] = float(value)
        else:
            raise ValueError(f"{key} is {str(value)[:50]}, not a number of at most {LARGEST:g}")
    return features


def read_obp(
    feedback: Mapping[str, Any], group: Any, propensity: str | None, unknown: Sequence[str]
) -> Log:
    """Returns the log of `context, action_context, action, position, reward, pscore, pi_b`.

    The features of action a in context x are its action context z, x and all products xᵢzⱼ.
    Without `action_context`, z is one-hot. If there are several positions, x has an indicator for
    each.
    """
    with of_line(NAME):
        x, rewards = _features(feedback, "context"), np.asarray(feedback["reward"], np.float64)
        actions = np.asarray(feedback["action"])
        if actions.dtype.kind not in "iu":
            raise FairbanditError(f"action: expected whole numbers; got the type {actions.dtype}")
        n, k = len(actions), int(feedback.get("n_actions", actions.max(initial=0) + 1))
        if n and not 0 <= actions.min() <= actions.max() < k:
            got = f"got {actions.min()} to {actions.max()}"
            raise FairbanditError(f"action: expected numbers from 0 to {k - 1}; {got}")
        position, pi, pscore = map(feedback.get, ("position", "pi_b", "pscore"))
        one_hot = feedback.get("action_context") is None
        z = np.eye(min(k, MOST_ACTIONS)) if one_hot else _features(feedback, "action_context")
        if x.ndim != 2 or z.ndim != 2 or (len(x), len(z)) != (n, k):
            raise FairbanditError(
                f"expected {n} contexts, {k} action contexts, at most {MOST_ACTIONS}"
            )
        labels = [*range(k)] if str(group) in ("None", "group") else group
        if isinstance(labels, (str, Mapping, Set)) or len(labels) != k:
            raise FairbanditError(f"group: expected a list of the {k} actions' labels; got {group}")
        if propensity and pscore is None:
            raise FairbanditError("pscore is missing; propensity=None reads a log without it")
        names = [f"x{a}" for a in range(x.shape[1])]
        seen, places = np.unique(np.zeros(n) if position is None else position, return_inverse=True)
        if len(seen) > 1:
            x = np.hstack([x, np.eye(len(seen))[places]])
            names += [f"position={value}" for value in seen]
        products = (x[:, None, :, None] * z[None, :, None, :]).reshape(n * k, -1)
        contexts = np.hstack([np.tile(z, (n, 1)), x.repeat(k, 0), products])
        chances = np.zeros((n, k))
        if propensity and pi is not None:
            pi = np.asarray(pi, dtype=np.float64).reshape(n, k, -1)
            chances[:] = pi[np.arange(n), :, 0 if pi.shape[2] == 1 else position]
        chances[np.arange(n), actions] = pscore if propensity else 1.0
        rounds = zip(actions.tolist(), rewards.tolist(), chances.tolist(), strict=True)
        pools = [
            Pool(NAME, at + 1, at, labels, propensities, {action: reward})
            for at, (action, reward, propensities) in enumerate(rounds)
        ]
    of_actions = [f"z{b}" for b in range(z.shape[1])]
    features = (*of_actions, *names, *(f"{a}*{b}" for a in names for b in of_actions))
    log = log_of_pools(pools, NAME, contexts, "round", features=features, unknown=unknown)
    lacking = np.full_like(log.propensities, np.nan)
    return log if propensity else replace(log, propensities=lacking, probabilities=None)


def _features(feedback: Mapping[str, Any], key: str) -> Floats:
    """Returns the rows of an array of features, which must be finite."""
    if hasattr(feedback[key], "toarray"):
        raise FairbanditError(f"{key}: expected an array; got a sparse matrix: use its toarray()")
    rows = np.asarray(feedback[key], np.float64)
    for row, *column in np.argwhere(~(np.abs(rows) <= LARGEST)):
        got = f"got {rows[row, *column]}"
        raise FairbanditError(f"{key}, row {row}: expected numbers of at most {LARGEST:g}; {got}")
    return rows

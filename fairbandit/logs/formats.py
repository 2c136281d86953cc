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
from typing import Any

import numpy as np

from fairbandit.errors import FairbanditError
from fairbandit.files.files import open_regular
from fairbandit.logs.chain import of_line
from fairbandit.logs.log import Floats, Log
from fairbandit.logs.tables import Pool, log_of_pools, number
from fairbandit.notices import listed, remark
from fairbandit.tables.cells import LARGEST
from fairbandit.tables.labels import JOINED
from fairbandit.tables.reading import texts_of

NAME = "bandit feedback of obp"

MOST_ACTIONS = 10_000
"""The largest number of one-hot actions, each of which is a candidate of every pool."""


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
    names of nested features. An action also has the shared features. The reward is −`_label_cost`.
    The feature that names an action's group, such as `group` or `user.region`, is a text, a number,
    or a namespace with one feature, whose name is the group. Without it, the group is unknown,
    unless no action has it. See `read_log` for the arguments; a log that is `like` another one has
    its products.
    """
    import pandas as pd

    if bad_lines not in ("error", "skip"):
        raise FairbanditError(f"bad_lines: expected error or skip, got {bad_lines!r}")
    if products not in (None, "shared"):
        raise FairbanditError(f"products: expected 'shared' of DSJSON, got {products!r}")
    multiplies = products == "shared"
    if like is not None:
        multiplies = any(JOINED in feature for feature in like.features)
    pools, lines = list[Pool](), Counter[str]()
    for path, count, line in _lines(paths):
        try:
            with of_line(f"{path}, line {count}: not a decision of DSJSON (see bad_lines)"):
                record = json.loads(line)
                if not (reason := _reason(record)):
                    pools.append(_pool(record, str(path), count, str(group), multiplies))
        except FairbanditError:
            if bad_lines == "error":
                raise
            reason = "bad (bad_lines=skip)"
        lines[reason] += 1
    if reasons := ", ".join(f"{lines[reason]:,} {reason}" for reason in lines if reason):
        total = lines.total()
        remark(f"{name}: {total - len(pools):,} of {total:,} lines are left out: {reasons}")
    if pools and all(label is None for pool in pools for label in pool.labels):
        raise FairbanditError(f"{name}: no action has {group!r}, which must name its group")
    rows = list(chain.from_iterable(pool.contexts for pool in pools))
    names = dict.fromkeys(chain.from_iterable(rows))
    if like is None:
        columns = _chosen(name, list(names), **chosen)
    else:
        columns, known = [*like.features], {*like.features}
        new = [key for key in names if key not in known]
        if new and len(new) == len(names):
            raise FairbanditError(f"like: expected a log that shares features with {name}")
        if new:
            left_out = f"{len(new):,} features that `like` lacks are left out: {listed(new, 5)}"
            remark(f"{name}: {left_out}")
    contexts = pd.DataFrame(rows, columns=columns, dtype=np.float64).to_numpy()
    gaps = np.isnan(contexts)
    indicators = ((contexts == 1) | gaps).all(0) & ~gaps.all(0)  # are 1 or lacking
    numbers = [
        f"{count:,} of {column!r}"
        for column, count, indicator in zip(columns, gaps.sum(0).tolist(), indicators, strict=True)
        if count and not indicator and "=" not in column and JOINED not in column
    ]
    if numbers:
        remark(f"{name}: numbers that actions lack become 0: {listed(numbers)}")
    further: Any = {"columns": [str(group)], "features": tuple(columns), "unknown": unknown}
    return log_of_pools(pools, name, np.nan_to_num(contexts), **further)


def _lines(paths: Iterable[Path]) -> Iterator[tuple[Path, int, bytes]]:
    """Yields each line that is not blank with its file and its number."""
    for path in paths:
        with open_regular(path) as file:
            lines = gzip.GzipFile(fileobj=file) if path.suffix.lower() == ".gz" else file
            try:
                yield from ((path, n, line) for n, line in enumerate(lines, 1) if line.strip())
            except (OSError, EOFError, zlib.error) as error:
                raise FairbanditError(f"cannot read {path}: {error}") from error


def _reason(record: dict[str, Any]) -> str:
    """Returns the reason why a line is left out, or "" for a decision."""
    if not isinstance(skipped := record.get("_skipLearn"), bool | None):
        raise ValueError(f"_skipLearn is {str(skipped)[:50]!r}, neither true nor false")
    if skipped:
        return "never carried out (_skipLearn)"
    if "_outcomes" in record:
        return "of conditional bandits (_outcomes)"
    return "" if "_label_cost" in record else "without a cost (_label_cost)"


def _chosen(log: str, names: list[str], *, features: Any, exclude: Any) -> list[str]:
    """Returns the chosen features; a name also stands for all features in its namespace."""

    def matching(given: list[str]) -> dict[str, None]:
        keys = dict[str, None]()
        for name in given:
            own = [k for k in names if k == name or f"{k.split('=')[0]}.".startswith(f"{name}.")]
            if not own:
                raise FairbanditError(
                    f"{log} lacks the feature {name!r}; it has {listed(names, 10)}"
                )
            keys |= dict.fromkeys(own)
        return keys

    excluded = matching(texts_of("exclude", exclude))
    kept = names if features is None else matching(texts_of("features", features))
    return [key for key in kept if key not in excluded]


def _pool(record: Any, file: str, line: int, group: str, products: bool) -> Pool:
    """Returns the decision of a line, with the features of each action as a mapping."""
    actions, pick = record["c"]["_multi"], record["_labelIndex"]
    chances = dict(zip(record["a"], record["p"], strict=True))
    chance = number(record["_label_probability"], "_label_probability")
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
        others = (leaf for leaf in leaves.items() if leaf[0].partition(".")[0] != group)
        own = _encoded(others)
        pairs = product(shared.items(), own.items()) if products else ()
        contexts.append(shared | own | {f"{a}{JOINED}{b}": x * y for (a, x), (b, y) in pairs})
    propensities = [chances[place] for place in range(1, len(actions) + 1)]
    decided = labels, [pick], propensities, contexts
    pool = Pool(file, line, str(record.get("EventId", "")), *decided)
    pool.reward(pick, 0.0 - number(record["_label_cost"], "_label_cost"))
    return pool


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
    return dict(
        (f"{key}={value}", 1.0) if isinstance(value, str) else (key, number(value, key))
        for key, value in leaves
    )


def is_obp(source: Any) -> bool:
    """Whether a source is the dictionary of bandit feedback of obp."""
    return isinstance(source, Mapping) and not {"pscore", "n_rounds"}.isdisjoint(source)


def read_obp(
    feedback: Mapping[str, Any], group: Any, propensity: str | None, unknown: Sequence[str]
) -> Log:
    """Returns the log of `context, action_context, action, position, reward, pscore`.

    The actions are the candidates of every pool. The features of action a in context x are its
    action context z, x and all products xᵢzⱼ; without `action_context`, z is one-hot. If there are
    several positions, x has an indicator for each. `pi_b` of obp's synthetic data holds the
    probabilities of all actions. A reward that is NaN is missing.
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
        pools = []
        for count, (action, reward, propensities) in enumerate(rounds):
            pools.append(Pool(NAME, count + 1, count, labels, [action], propensities))
            if not np.isnan(reward):
                pools[-1].reward(action, reward)
    of_actions = [f"z{b}" for b in range(z.shape[1])]
    features = (*of_actions, *names, *(f"{a}*{b}" for a in names for b in of_actions))
    further: Any = {"features": features, "unknown": unknown}
    log = log_of_pools(pools, NAME, contexts, unit="round", **further)
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

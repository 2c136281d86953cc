"""Vowpal Wabbit's DSJSON, as `--cb_explore_adf` reads it and its logs hold it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from fairbandit.files import of_file
from fairbandit.logs.chain import of_line
from fairbandit.logs.log import Log
from fairbandit.logs.tables import Pool, log_of_pools, number


def read_dsjson(paths: Sequence[Path], name: str, group: str) -> Log:
    """The log of files with a decision a line: `_label_cost, _labelIndex, a, p, c`.

    A feature is a number, or a text, which is 1 for its name and text together; names of nested
    features are joined by a point. Shared features join those of each action. The reward is
    −`_label_cost`. Lines without `_label_cost`, such as those of rewards that came late, are left
    out. The feature of an action that names its group, such as `group` or `user.region`, is a text,
    a number, or a namespace with one feature, whose name is the group.
    """
    import pandas as pd

    pools = list[Pool]()
    for path in paths:
        with of_file(path), path.open("rb") as file:
            for count, line in enumerate(file, 1):
                with of_line(f"{path}, line {count}: no decision of DSJSON"):
                    record = json.loads(line)
                    if not isinstance(record, dict) or "_label_cost" in record:
                        pools.append(_pool(record, str(path), count, group))
    rows = list(chain.from_iterable(pool.contexts for pool in pools))
    features = pd.DataFrame(rows, dtype=np.float64).fillna(0.0)
    return log_of_pools(pools, name, features.to_numpy(), features=tuple(features))


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

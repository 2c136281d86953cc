"""Vowpal Wabbit's DSJSON, as `--cb_explore_adf` reads it and its logs hold it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairbandit.files import of_file
from fairbandit.logs.chain import number, of_line
from fairbandit.logs.log import Log
from fairbandit.logs.tables import NEAR, Lines


def read_dsjson(paths: Sequence[Path], group: str) -> Log:
    """The log of files with a decision a line: `_label_cost, _labelIndex, a, p, c`.

    A feature is a number, or a text, which is 1 for its name and text together; names of nested
    features are joined by a point. Shared features join those of each action. The reward is
    −`_label_cost`. Lines without `_label_cost`, such as those of rewards that came late, are left
    out.

    Args:
        paths: the files.
        group: the feature of each action that names its group, such as `group` or `user.region`: a
            text, a number, or a namespace with one feature, whose name is the group.

    Raises:
        FairbanditError: a line is no JSON, an action has no group, or values do not fit together;
            the message names the line.
    """
    import pandas as pd

    rows = Lines(str(paths[0]) if len(paths) == 1 else f"{paths[0]} and further files")
    for path in paths:
        with of_file(path), path.open("rb") as file:
            for count, line in enumerate(file, 1):
                with of_line(f"{path}, line {count}: no decision of DSJSON"):
                    record = json.loads(line)
                    if not isinstance(record, dict) or "_label_cost" in record:
                        _add(record, rows, count, group)
    features = pd.DataFrame(rows.contexts, dtype=np.float64).fillna(0.0)
    return rows.log(features.to_numpy(), list(features))


def _add(record: Mapping[str, Any], rows: Lines, line: int, group: str) -> None:
    """Adds the decision of a line, with the features of each action as a mapping."""
    actions, pick = record["c"]["_multi"], record["_labelIndex"]
    chances = dict(zip(record["a"], record["p"], strict=True))
    label = number(record["_label_probability"], "_label_probability")
    if record.get("_label_Action", pick + 1) != pick + 1 or record.get("pdrop"):
        raise ValueError("`_label_Action` is not `_labelIndex` + 1, or `pdrop` left out decisions")
    if len(chances) != len(actions) or not abs(label - chances[pick + 1]) <= NEAR * label:
        raise ValueError("`a` is no order of actions, or `_label_probability` is not the pick's")
    shared = {key: value for key, value in record["c"].items() if not key.startswith("_")}
    common = dict(_features(shared, ""))
    own = [{key: value for key, value in one.items() if key != group} for one in actions]
    at = rows.add(
        line,
        str(record.get("EventId", "")),
        [_group(action, group) for action in actions],
        [pick],
        [chances[place] for place in range(1, len(actions) + 1)],
        [{**common, **dict(_features(one, ""))} for one in own],
    )
    rows.reward(at[pick], 0.0 - number(record["_label_cost"], "_label_cost"))


def _group(action: Mapping[str, Any], name: str) -> str:
    """The label of an action's group."""
    found: Any = action
    for key in name.split("."):
        if not isinstance(found, dict) or key not in found:
            raise ValueError(f"an action has no {name!r}, which is to name its group")
        found = found[key]
    if isinstance(found, dict) and len(found) == 1:
        ((key, value),) = found.items()
        found = value if isinstance(value, str) else key
    if not isinstance(found, (str, int, float)):
        raise ValueError(f"{name!r} of an action names no group: {found!r}")
    return str(found)


def _features(value: Any, name: str) -> Iterator[tuple[str, float]]:
    """The features within a JSON value of some name."""
    if isinstance(value, (dict, list)):
        entries: Any = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in entries:
            if not str(key).startswith("_"):
                yield from _features(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, str):
        yield f"{name}={value}", 1.0
    elif value is not None:
        yield name, number(value, name)

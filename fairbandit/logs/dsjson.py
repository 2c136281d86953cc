"""Vowpal Wabbit's DSJSON, as `--cb_explore_adf` reads it and its logs hold it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from fairbandit.errors import FairbanditError
from fairbandit.logs.log import Log, padded

MOST_FEATURES = 5_000
"""The most different features that are read."""


def read_dsjson(path: Path, group: str) -> Log:
    """The log of a file with a decision a line: `_label_cost, _labelIndex, a, p, c`.

    A feature is a number, or a text, which is 1 for its name and text together; names of nested
    features are joined by a point. Shared features join those of each action. The reward is
    −`_label_cost`. Lines without `_label_cost`, such as those of rewards that came late, are left
    out.

    Args:
        path: the file.
        group: the feature of each action that names its group, such as `group` or `user.region`: a
            text, a number, or a namespace with one feature, whose name is the group.

    Raises:
        FairbanditError: a line is no JSON, an action has no group, or values do not fit together;
            the message names the line.
    """
    decisions = []
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    record = json.loads(line)
                    if isinstance(record, dict) and "_label_cost" not in record:
                        continue
                    decisions.append(_decision(record, group))
                except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
                    raise FairbanditError(
                        f"{path}, line {number}: no decision of DSJSON "
                        f"({type(error).__name__}: {error})"
                    ) from error
    except OSError as error:
        raise FairbanditError(f"cannot read {path}: {error.strerror or error}") from error
    if not decisions:
        raise FairbanditError(f"{path} holds no decision with a reward")
    names = dict.fromkeys(chain(*(action for one in decisions for action in one["features"])))
    if len(names) > MOST_FEATURES:
        raise FairbanditError(
            f"{path} has {len(names):,} different features; at most {MOST_FEATURES:,} are read"
        )
    at = {name: place for place, name in enumerate(names)}
    codes = {
        label: code
        for code, label in enumerate(dict.fromkeys(chain(*(one["groups"] for one in decisions))))
    }
    groups = padded([[codes[label] for label in one["groups"]] for one in decisions], -1, np.int64)
    contexts = np.zeros((*groups.shape, len(names)))
    for row, one in zip(contexts, decisions, strict=True):
        for place, features in zip(row, one["features"], strict=False):
            for name, value in features.items():
                place[at[name]] = value
    return Log(
        groups=groups,
        labels=tuple(codes),
        picks=np.array([[one["pick"]] for one in decisions]),
        rewards=np.array([[one["reward"]] for one in decisions]),
        propensities=np.array([[one["chances"][one["pick"]]] for one in decisions]),
        contexts=contexts,
        probabilities=padded([one["chances"] for one in decisions], 0.0),
        features=tuple(names),
        names=[one["name"] for one in decisions],
    )


def _decision(record: Mapping[str, Any], group: str) -> dict[str, Any]:
    """A decision's pick, reward, probabilities, groups and features."""
    shared = {k: v for k, v in record["c"].items() if not k.startswith("_")}
    actions = record["c"]["_multi"]
    order = [int(action) - 1 for action in record["a"]]
    chances = np.zeros(len(actions))
    if sorted(order) != list(range(len(actions))) or len(record["p"]) != len(order):
        raise ValueError("`a` is no order of the actions, or `p` has another length")
    chances[order] = np.asarray(record["p"], dtype=np.float64)
    pick, reward = int(record["_labelIndex"]), -float(record["_label_cost"])
    if not 0 <= pick < len(actions) or not (chances >= 0).all() or not np.isfinite(reward):
        raise ValueError("the pick, its cost or a probability is out of range")
    if not 0 < chances[pick] <= 1 or abs(chances.sum() - 1) > 1e-4:
        raise ValueError("probabilities do not sum to 1, or that of the pick is 0")
    if abs(float(record["_label_probability"]) - chances[pick]) > 1e-4 * chances[pick]:
        raise ValueError("`_label_probability` is not the probability in `p`")
    common = dict(_features(shared, ""))
    return {
        "name": str(record.get("EventId", "")),
        "pick": pick,
        "reward": reward,
        "chances": chances,
        "groups": [_group(action, group) for action in actions],
        "features": [
            {**common, **dict(_features({k: v for k, v in one.items() if k != group}, ""))}
            for one in actions
        ],
    }


def _group(action: Mapping[str, Any], name: str) -> str:
    """The label of an action's group."""
    found: Any = action
    for key in name.split("."):
        if not isinstance(found, dict) or key not in found:
            raise ValueError(f"an action has no {name!r}, which is to name its group")
        found = found[key]
    if isinstance(found, dict) and len(found) == 1:
        ((key, value),) = found.items()
        return str(value) if isinstance(value, str) else key
    if isinstance(found, (str, int, float)):
        return str(found)
    raise ValueError(f"{name!r} of an action names no group: {found!r}")


def _features(value: Any, name: str) -> Iterator[tuple[str, float]]:
    """The features within a JSON value of some name."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not key.startswith("_"):
                yield from _features(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _features(inner, f"{name}.{place}")
    elif isinstance(value, str):
        yield f"{name}={value}", 1.0
    elif value is not None:
        number = float(value)
        if not abs(number) <= 1e100:
            raise ValueError(f"feature {name!r} is {number}")
        yield name, number

"""Vowpal Wabbit's DSJSON, as `--cb_explore_adf` reads it and its logs hold it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fairbandit.environments.reading import LARGEST
from fairbandit.errors import FairbanditError
from fairbandit.logs.log import Floats, Log, padded

MOST_FEATURES = 5_000
"""The most different features that are read."""

NEAR = 1e-4
"""How far probabilities of single precision may be off."""


class _Decision(NamedTuple):
    """What a line says; of the `chances`, those of candidates that were not picked may be 0."""

    name: str
    pick: int
    reward: float
    chances: Floats
    groups: list[str]
    features: list[dict[str, float]]


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
    every = list(chain(*(_decisions(path, group) for path in paths)))
    if not every:
        raise FairbanditError(f"{paths[0]} holds no decision with a reward")
    names = dict.fromkeys(chain(*(features for one in every for features in one.features)))
    if len(names) > MOST_FEATURES:
        raise FairbanditError(
            f"{paths[0]} has {len(names):,} different features; at most {MOST_FEATURES:,} are read"
        )
    at = {name: place for place, name in enumerate(names)}
    labels = dict.fromkeys(chain(*(one.groups for one in every)))
    codes = {label: code for code, label in enumerate(labels)}
    groups = padded([[codes[label] for label in one.groups] for one in every], -1, np.int64)
    contexts = np.zeros((*groups.shape, len(names)))
    for row, one in zip(contexts, every, strict=True):
        for place, features in zip(row, one.features, strict=False):
            place[[at[name] for name in features]] = list(features.values())
    whole = all(abs(one.chances.sum() - 1) < NEAR for one in every)
    return Log(
        groups=groups,
        labels=tuple(labels),
        picks=np.array([[one.pick] for one in every]),
        rewards=np.array([[one.reward] for one in every]),
        propensities=np.array([[min(one.chances[one.pick], 1.0)] for one in every]),
        contexts=contexts,
        probabilities=padded([one.chances for one in every], 0.0) if whole else None,
        features=tuple(names),
        names=[one.name for one in every],
    )


def _decisions(path: Path, group: str) -> Iterator[_Decision]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    record = json.loads(line)
                    if not isinstance(record, dict) or "_label_cost" in record:
                        yield _decision(record, group)
                except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError,
                        RecursionError) as error:  # fmt: skip
                    raise FairbanditError(
                        f"{path}, line {number}: no decision of DSJSON "
                        f"({type(error).__name__}: {str(error)[:200]})"
                    ) from error
    except OSError as error:
        raise FairbanditError(f"cannot read {path}: {error.strerror or error}") from error


def _decision(record: Mapping[str, Any], group: str) -> _Decision:
    shared = {key: value for key, value in record["c"].items() if not key.startswith("_")}
    actions, order = record["c"]["_multi"], np.array(record["a"]) - 1
    pick, reward = record["_labelIndex"], 0.0 - _number(record["_label_cost"], "_label_cost")
    if order.dtype.kind != "i" or sorted(order) != list(range(len(actions))):
        raise ValueError("`a` is no order of the actions")
    if type(pick) is not int or not 0 <= pick < len(actions) or record.get("pdrop"):
        raise ValueError("`_labelIndex` is no action, or `pdrop` says that decisions are left out")
    if record.get("_label_Action", pick + 1) != pick + 1:
        raise ValueError("`_label_Action` is not `_labelIndex` + 1")
    chances = np.empty(len(actions))
    chances[order] = [_number(one, "p") for one in record["p"]]
    others = chances.sum() - chances[pick]
    if not (chances >= 0).all() or not 0 < chances[pick] <= 1 + NEAR:
        raise ValueError("`p` holds no probabilities, or 0 for the pick")
    if others and abs(others + chances[pick] - 1) > NEAR:  # that of the pick may stand alone
        raise ValueError("`p` does not sum to 1")
    label = _number(record["_label_probability"], "_label_probability")
    if abs(label - chances[pick]) > NEAR * chances[pick]:
        raise ValueError("`_label_probability` is not that of the pick in `p`")
    common = dict(_features(shared, ""))
    own = [{k: v for k, v in one.items() if k != group} for one in actions]
    return _Decision(
        name=str(record.get("EventId", "")),
        pick=pick,
        reward=reward,
        chances=chances,
        groups=[_group(action, group) for action in actions],
        features=[{**common, **dict(_features(one, ""))} for one in own],
    )


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
    if isinstance(value, (dict, list)):
        entries: Any = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in entries:
            if not str(key).startswith("_"):
                yield from _features(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, str):
        yield f"{name}={value}", 1.0
    elif value is not None:
        yield name, _number(value, name)


def _number(value: Any, name: str) -> float:
    number = float(value) if isinstance(value, (int, float)) else np.nan
    if not abs(number) <= LARGEST:
        raise ValueError(f"{name!r} is {str(value)[:50]}, and no number of at most {LARGEST:g}")
    return number

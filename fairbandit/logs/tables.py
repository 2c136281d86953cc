"""Logs as tables with a row for each candidate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbandit.environments.columns import Encoder, chosen_columns, resolve_columns
from fairbandit.environments.reading import Source
from fairbandit.errors import FairbanditError
from fairbandit.logs.log import Floats, Ints, Log

NEAR = 1e-6
"""How far from 1 the probabilities of a pool may sum to."""


def log_of(
    source: Source,
    *,
    decision: str,
    picked: str,
    propensity: str | None,
    group: str | Sequence[str],
    reward: str,
    features: Sequence[str] | Mapping[str, Any] | None,
    score: str | None,
    encoder: Encoder | None = None,
) -> tuple[Log, Encoder]:
    """The log of a table that was read, and what encodes its features; see `read_log`.

    An encoder that is given, that of an earlier piece of the table, encodes this one too.

    Raises:
        FairbanditError: the message names the row of the first cell that does not make sense.
    """
    groups = [group] if isinstance(group, str) else list(group)
    named = [decision, picked, reward, *groups, *(name for name in (propensity, score) if name)]
    for name in (decision, picked, *groups):
        source.require(name, ~source.gaps(name), "a value")
    codes, names = source.frame[decision].factorize()
    rows = _Rows(source, codes, len(names))
    chosen = _number(source, picked, rows, "0 or 1")
    source.require(picked, (chosen == 0) | (chosen == 1), "0 or 1")
    is_pick = chosen == 1
    count = np.bincount(codes, is_pick, minlength=len(names))
    source.require(picked, count[codes] == 1, "one pick in each decision")
    rewards = source.numbers(reward)
    source.require(reward, is_pick | np.isnan(rewards), "no reward for a candidate not picked")
    chances = np.full(len(source), np.nan)
    if propensity is not None:
        chances = source.numbers(propensity)
        good = np.where(is_pick, (chances > 0) & (chances <= 1), ~(chances < 0) & ~(chances > 1))
        source.require(propensity, good, "a probability, above 0 for the pick and at most 1")
    labels = [source.labels(name) for name in groups]
    merged = (
        labels[0]
        if len(labels) == 1
        else np.array([" × ".join(one) for one in zip(*labels, strict=True)])
    )
    number, values = _coded(merged)
    if encoder is None:
        encoder = Encoder(_columns(source, features, named, groups), source, bias=True)
    places = rows.table(np.arange(len(source)), -1)
    at = places.clip(min=0)
    whole = bool(~np.isnan(chances).any()) and bool(
        (np.abs(np.bincount(codes, chances) - 1) < NEAR).all()
    )
    pick = rows.table(is_pick, False).argmax(1)[:, None]
    take = np.arange(len(names))[:, None], pick
    log = Log(
        groups=rows.table(number, -1),
        labels=values,
        picks=pick,
        rewards=rewards[at][take],
        propensities=chances[at][take],
        contexts=np.where((places >= 0)[..., None], encoder(source)[at], 0.0),
        probabilities=rows.table(chances, 0.0) if whole else None,
        features=encoder.names,
        names=list(names),
        scores=None if score is None else rows.table(source.numbers(score), np.nan),
        attributes={name: _attribute(rows, own) for name, own in zip(groups, labels, strict=True)}
        if len(groups) > 1
        else None,
    )
    return log, encoder


class _Rows:
    """The rows of each decision, in the order of the table, wherever they stand."""

    def __init__(self, source: Source, codes: Ints, count: int) -> None:
        order = np.argsort(codes, kind="stable")
        sizes = np.bincount(codes, minlength=count)
        starts = np.repeat(sizes.cumsum() - sizes, sizes)
        self._at = codes[order], np.arange(len(source)) - starts
        self._order, self._shape = order, (count, int(sizes.max(initial=0)))

    def table(self, values: NDArray[Any], empty: Any) -> NDArray[Any]:
        """A value a row as (n, K)."""
        whole = np.full(self._shape, empty, dtype=values.dtype)
        whole[self._at] = values[self._order]
        return whole


def _number(source: Source, name: str, rows: _Rows, expected: str) -> Floats:
    values = source.numbers(name)
    source.require(name, ~np.isnan(values), expected)
    return values


def _coded(labels: NDArray[Any]) -> tuple[Ints, tuple[str, ...]]:
    values, number = np.unique(labels.astype(str), return_inverse=True)
    return number.astype(np.int64), tuple(values.tolist())


def _attribute(rows: _Rows, labels: NDArray[Any]) -> tuple[Ints, tuple[str, ...]]:
    number, values = _coded(labels)
    return rows.table(number, -1), values


def _columns(
    source: Source,
    features: Sequence[str] | Mapping[str, Any] | None,
    taken: Sequence[str],
    groups: Sequence[str],
) -> dict[str, Any]:
    """The specification of each feature column, that of the groups included."""
    if isinstance(features, (Mapping, str)):
        columns, _ = resolve_columns(source, chosen_columns(features), taken)
    else:
        columns, left_out = resolve_columns(source, None, taken)
        if features is not None:
            if lacking := [name for name in features if name not in columns]:
                reason = left_out.get(lacking[0], "no such column")
                raise FairbanditError(
                    f"{source.name}, column {lacking[0]!r} cannot be a feature: {reason}"
                )
            columns = {name: columns[name] for name in features}
    of_groups, _ = resolve_columns(source, dict.fromkeys(groups, "category"), taken)
    return {**columns, **of_groups}

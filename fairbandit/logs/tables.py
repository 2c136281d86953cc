"""Logs as tables with a row for each candidate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairbandit.environments.columns import Encoder, chosen_columns, resolve_columns
from fairbandit.environments.reading import Source, listed, remark
from fairbandit.errors import FairbanditError
from fairbandit.logs.log import Log

NEAR = 0.01
"""How far from 1 the probabilities of a pool may sum to: tables round them."""


class Columns(NamedTuple):
    """The columns of a table; see `read_log`."""

    decision: str = "decision"
    picked: str = "picked"
    propensity: str | None = "propensity"
    group: str | Sequence[str] = "group"
    reward: str = "reward"
    features: Sequence[str] | Mapping[str, Any] | str | None = None
    score: str | None = None

    @property
    def groups(self) -> list[str]:
        """The group columns."""
        return list(self.group) if isinstance(self.group, (list, tuple)) else [self.group]  # type: ignore[list-item]

    @property
    def named(self) -> list[str]:
        """All columns but the features."""
        further = [name for name in (self.propensity, self.score) if name is not None]
        every = [self.decision, self.picked, self.reward, *further, *self.groups]
        if not self.groups or not all(isinstance(name, str) for name in every):
            raise FairbanditError(f"columns: expected their names, got {every}")
        return every


def encoder_of(source: Source, columns: Columns) -> Encoder:
    """What encodes the features of a table, a group's included.

    Raises:
        FairbanditError: a column that is chosen cannot be a feature.
    """
    features, left_out = columns.features, dict[str, str]()
    _require(source, columns.named)
    if isinstance(features, (Mapping, str)):
        found, _ = resolve_columns(source, chosen_columns(features), columns.named)
        _require(source, found)
    else:
        found, left_out = resolve_columns(source, None, columns.named)
    if left_out and features is None:
        text = listed([f"{name!r} ({reason})" for name, reason in left_out.items()])
        remark(f"{source.name}: these columns are no features: {text}; features=[…] chooses others")
    if isinstance(features, Sequence) and not isinstance(features, str):
        if lacking := [name for name in features if name not in found]:
            reason = left_out.get(lacking[0], "there is no such column, or it has another role")
            raise FairbanditError(f"{source.name}, column {lacking[0]!r} is no feature: {reason}")
        found = {name: found[name] for name in features}
    of_groups, _ = resolve_columns(source, dict.fromkeys(columns.groups, "category"), ())
    return Encoder({**found, **of_groups}, source, bias=True)


def log_of(source: Source, columns: Columns, encoder: Encoder) -> Log:
    """The log of a table that was read.

    Raises:
        FairbanditError: the message names the row of the first cell that does not make sense.
    """
    _require(source, [*columns.named, *encoder.columns])
    for name in (columns.decision, *columns.groups):
        source.require(name, ~source.gaps(name), "a value")
    codes, names = source.frame[columns.decision].factorize()
    n, picked = len(names), source.numbers(columns.picked)
    source.require(columns.picked, (picked == 0) | (picked == 1), "0 or 1")
    count = np.bincount(codes, picked)
    source.require(columns.picked, count[codes] == 1, "one pick in each decision")
    is_pick, rewards = picked == 1, source.numbers(columns.reward)
    source.require(columns.reward, is_pick | np.isnan(rewards), "no reward but for picks")
    chances, whole = np.full(len(source), np.nan), False
    if columns.propensity is not None:
        chances = source.numbers(columns.propensity)
        in_range = np.isnan(chances) | ((chances >= 0) & (chances <= 1))
        good = np.where(is_pick, (chances > 0) & (chances <= 1), in_range)
        source.require(columns.propensity, good, "a probability, above 0 for the pick")
        whole = not np.isnan(chances).any()
    if whole and columns.propensity:  # of all candidates, or that of the pick in each row
        near = np.abs(np.bincount(codes, chances) - 1) < NEAR
        whole = bool(near.all())
        of_pick = np.bincount(codes, np.where(is_pick, chances, 0.0))
        alike = whole or bool((chances == of_pick[codes]).all())
        expected = f"probabilities that sum to 1 ± {NEAR} in each decision, or the pick's alone"
        source.require(columns.propensity, near[codes] | alike, expected)
    order = np.argsort(codes, kind="stable")  # rows of a decision may stand anywhere
    sizes = np.bincount(codes)
    places = np.arange(len(source)) - np.repeat(sizes.cumsum() - sizes, sizes)

    def pools(values: NDArray[Any], empty: float) -> NDArray[Any]:
        table = np.full((n, sizes.max(), *values.shape[1:]), empty, dtype=values.dtype)
        table[codes[order], places] = values[order]
        return table

    labels = [source.labels(name).astype(str) for name in columns.groups]
    every = labels[0]
    for more in labels[1:]:
        every = every.astype(object) + " × " + more
    (groups, of_all), *attributes = (
        (pools(numbers, -1), tuple(values.tolist()))
        for values, numbers in (
            np.unique(one.astype(str), return_inverse=True) for one in (every, *labels)
        )
    )
    pick = pools(is_pick, False).argmax(1)[:, None]
    score = columns.score
    return Log(
        groups=groups,
        labels=of_all,
        picks=pick,
        rewards=np.take_along_axis(pools(rewards, np.nan), pick, 1),
        propensities=np.take_along_axis(pools(chances, np.nan), pick, 1),
        contexts=pools(encoder(source), 0.0),
        probabilities=pools(chances, 0.0) if whole else None,
        features=encoder.names,
        names=names.tolist(),
        scores=None if score is None else pools(source.numbers(score), np.nan),
        attributes=dict(zip(columns.groups, attributes, strict=True)),
        encoder=encoder,
    )


def _require(source: Source, names: Sequence[str] | Mapping[str, Any]) -> None:
    if not len(source):
        raise FairbanditError(f"{source.name} holds no row")
    if lacking := [repr(name) for name in names if name not in source.frame]:
        raise FairbanditError(
            f"{source.name} has no column {listed(lacking)} of numbers or texts; it has "
            f"{listed([*map(repr, source.columns)])}"
        )

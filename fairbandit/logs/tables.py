"""The common form of all logs: a table with one row for each candidate, which is checked here."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbandit.environments.columns import chosen_columns, resolve_columns
from fairbandit.environments.encoder import Encoder
from fairbandit.environments.reading import LARGEST, Source, listed, remark
from fairbandit.errors import FairbanditError
from fairbandit.logs.chain import number
from fairbandit.logs.log import Floats, Ints, Log

TWO_DECIMALS, FOUR_DECIMALS = 0.00501, 0.0000501
"""The largest error of a rounded probability, in tables and in other logs."""

SINGLE = 1e-6
"""The largest excess over 1 of a probability of single precision."""


Columns = Mapping[str, str | None]
"""The names of the columns `decision, picked, propensity, reward, score`; None if there is none."""


def encoder_of(
    source: Source, taken: Sequence[str], groups: Sequence[str], features: Any
) -> Encoder:
    """The encoder of the features and the groups of a table.

    Args:
        source: the table.
        taken: columns that are no features.
        groups: the group columns.
        features: as `read_log` takes them.

    Raises:
        FairbanditError: a column that is chosen cannot be a feature.
    """
    chosen = chosen_columns(features) if isinstance(features, (Mapping, str)) else None
    source.need(chosen or ())
    found, left_out = resolve_columns(source, chosen, taken)
    if isinstance(features, (list, tuple)):
        if lacking := [name for name in features if name not in found]:
            reason = left_out.get(lacking[0], "there is no such column, or it has another role")
            raise FairbanditError(f"{source.name}, column {lacking[0]!r} is no feature: {reason}")
        found = {name: found[name] for name in features}
    elif left_out:
        text = listed([f"{name!r} ({reason})" for name, reason in left_out.items()])
        remark(f"{source.name}: these columns are no features: {text}; features=[…] chooses others")
    of_groups, _ = resolve_columns(source, dict.fromkeys(groups, "category"), ())
    return Encoder.fitted({**found, **of_groups}, source, bias=True, decimal=source.decimal)


def log_of_table(source: Source, columns: Columns, groups: Sequence[str], encoder: Encoder) -> Log:
    """The log that a table holds.

    Raises:
        FairbanditError: a cell is invalid; the message names the first such row.
    """
    for name in (str(columns["decision"]), *groups):
        source.require(name, ~source.gaps(name), "a value")
    labels = {name: source.labels(name).astype(str) for name in groups}
    first, *others = (one.astype(object) for one in labels.values())
    every = sum((" × " + other for other in others), first)
    attributes = {name: _coded(own) for name, own in labels.items()}
    further = {"attributes": attributes, "features": encoder.names, "encoder": encoder}
    return _log_of(source, columns, _coded(every), encoder(source), TWO_DECIMALS, **further)


def _coded(labels: NDArray[Any]) -> tuple[Ints, tuple[str, ...]]:
    own, codes = np.unique(labels.astype(str), return_inverse=True)
    return codes, tuple(own.tolist())


class Lines:
    """Collects decisions one by one, and makes a log of them.

    Args:
        name: the name of the log in messages.
        unit: the name of a numbered record in messages, such as a line.

    Attributes:
        contexts: the contexts of each decision that was added, K of any type.
    """

    def __init__(self, name: str, unit: str = "line") -> None:
        self._name, self._unit = name, unit
        self._names: list[Any] = []
        self._labels: dict[Hashable, int] = {}
        self._rows: defaultdict[str, list[Any]] = defaultdict(list)
        self.contexts: list[Any] = []

    def __len__(self) -> int:
        return len(self._names)

    def add(
        self,
        line: int,
        name: Any,
        labels: Sequence[Hashable],
        picks: Sequence[int],
        propensities: Sequence[float],
        contexts: Any = None,
    ) -> dict[int, int]:
        """Adds a decision, and returns the row of each pick by its place in the pool.

        Raises:
            TypeError, ValueError: the values are no decision.
        """
        k, first = len(labels), len(self._rows["line"])
        order = {range(k).index(pick): place for place, pick in enumerate(picks, 1)}
        sizes = {k, len(propensities), len(labels if contexts is None else contexts)}
        if len(order) < len(picks) or len(sizes) > 1:
            raise ValueError(f"expected picks that differ, and all parts of {k} candidates")
        columns: dict[str, list[Any]] = {
            "line": [line] * k,
            "decision": [len(self)] * k,
            "group": [self._labels.setdefault(label, len(self._labels)) for label in labels],
            "picked": [order.get(place, 0) for place in range(k)],
            "propensity": [number(one, "a propensity") for one in propensities],
            "reward": [math.nan] * k,
        }
        for column, values in columns.items():
            self._rows[column] += values
        self._names.append(name)
        if contexts is not None:
            self.contexts.append(contexts)
        return {pick: first + pick for pick in order}

    def reward(self, row: int, reward: Any) -> None:
        """Adds the reward of the pick in a row.

        Raises:
            ValueError: the reward is no number, or is known already.
        """
        rewards = self._rows["reward"]
        if not math.isnan(rewards[row]):
            raise ValueError("the reward came already")
        rewards[row] = number(reward, "a reward")

    def log(self, contexts: Any, features: Sequence[str], **further: Any) -> Log:
        """The log of all decisions, with contexts (R, d), or None, and further attributes.

        Raises:
            FairbanditError: a line is invalid; the message names the first such line.
        """
        import pandas as pd

        if not self._names:
            raise FairbanditError(f"{self._name} holds no decision")
        lines = np.array(self._rows.pop("line"))
        frame = pd.DataFrame(self._rows, index=lines - 1, dtype=np.float64)
        source = Source(self._name, list(frame), frame, unit=self._unit)
        if contexts is not None:
            finite = (np.abs(contexts) <= LARGEST).all(1)
            source.require("decision", finite, f"features of at most {LARGEST:g}")
        groups = frame["group"].to_numpy(np.int64), tuple(self._labels)
        named = {"names": self._names, "features": tuple(features), **further}
        columns = {name: name for name in frame} | {"score": None}
        return _log_of(source, columns, groups, contexts, FOUR_DECIMALS, **named)


def _log_of(
    source: Source, columns: Columns, groups: Any, contexts: Any, off: float, **further: Any
) -> Log:
    import pandas as pd

    decision, picked, reward = (str(columns[key]) for key in ("decision", "picked", "reward"))
    codes, names = source.frame[decision].factorize()
    order, rewards = source.numbers(picked), source.numbers(reward)
    is_pick = order > 0
    numbered = (order >= 0) & (order % 1 == 0)
    source.require(picked, numbered, "0, or 1 for the pick, or 1, 2, … for the picks in order")
    again = pd.DataFrame({"decision": codes, "order": order}).duplicated() & is_pick
    count, total = np.bincount(codes, is_pick), np.bincount(codes, order)
    whole = (count > 0) & (total == count * (count + 1) / 2)  # picks are numbered from 1
    expected = "one pick in each decision, or picks that are numbered 1, 2, …"
    source.require(picked, whole[codes] & ~again, expected)
    source.require(reward, is_pick | np.isnan(rewards), "no reward but for picks")
    chances = _chances(source, columns["propensity"], codes, is_pick, off)
    scores = None if columns["score"] is None else source.numbers(columns["score"])
    places = pd.Series(codes).groupby(codes).cumcount().to_numpy()
    at, slots = np.flatnonzero(is_pick), order[is_pick].astype(np.int64) - 1

    def table(values: NDArray[Any], row: Ints, column: Ints, empty: float) -> NDArray[Any]:
        whole = np.full((len(names), column.max() + 1, *values.shape[1:]), empty, values.dtype)
        whole[row, column] = values
        return whole

    def pools(values: Any, empty: float) -> Any:
        return None if values is None else table(values, codes, places, empty)

    def picks(values: NDArray[Any], empty: float) -> NDArray[Any]:
        return table(values[at], codes[at], slots, empty)

    return Log(
        groups=pools(groups[0], -1),
        labels=groups[1],
        picks=picks(places, -1),
        rewards=picks(rewards, np.nan),
        propensities=picks(chances, np.nan),
        contexts=pools(contexts, 0.0),
        probabilities=None if np.isnan(chances).any() else pools(chances, 0.0),
        scores=pools(scores, np.nan),
        attributes={
            name: (pools(one, -1), own)
            for name, (one, own) in further.pop("attributes", {}).items()
        },
        **{"names": names.tolist(), **further},
    )


def _chances(
    source: Source, name: str | None, codes: Ints, is_pick: NDArray[np.bool_], off: float
) -> Floats:
    """The propensities of all rows if all are known, and else those of the picks; NaN elsewhere."""
    if name is None:
        return np.full(len(source), np.nan)
    chances = source.numbers(name)
    known, in_range = ~np.isnan(chances), (chances >= 0) & (chances <= 1 + SINGLE)
    good = np.where(is_pick, in_range & (chances > 0), in_range | ~known)
    source.require(name, good, "a probability, above 0 for the pick")
    chances = chances.clip(max=1)
    of_pick = np.where(is_pick, chances, 0.0)
    if known.all():
        beyond = np.abs(np.bincount(codes, chances) - np.bincount(codes, is_pick))
        near = beyond <= off * np.bincount(codes)
        alone = (chances == np.bincount(codes, of_pick)[codes]).all() or (chances == of_pick).all()
        expected = f"probabilities that sum to 1 ± {off:g} a candidate, or the pick's alone"
        source.require(name, near[codes] | alone, expected)
        if near.all():
            return chances
    return np.where(is_pick, chances, np.nan)

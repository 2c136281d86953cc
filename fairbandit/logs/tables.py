"""The common form of all logs: a table with one row for each candidate, which is checked here."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairbandit.environments.columns import chosen_columns, resolve_columns
from fairbandit.environments.encoder import Encoder
from fairbandit.environments.reading import LARGEST, Source, listed, remark
from fairbandit.errors import FairbanditError
from fairbandit.logs.log import Floats, Ints, Log

OFF = 0.00501
"""The largest error of a probability that was rounded to two decimals."""

SINGLE = 1e-6
"""The largest excess over 1 of a probability of single precision."""


class Columns(NamedTuple):
    """The names of columns; None if there is none."""

    decision: str
    picked: str
    propensity: str | None
    reward: str
    score: str | None


def encoder_of(
    source: Source,
    taken: Sequence[str],
    groups: Sequence[str],
    features: Any,
    exclude: Sequence[str] = (),
) -> Encoder:
    """The encoder of a table's groups and of its features, which are none of the taken columns."""
    source.need(name for name in exclude if name not in source.columns)
    taken = [*taken, *exclude]
    chosen = chosen_columns(features) if isinstance(features, (Mapping, str)) else None
    source.need(chosen or ())
    found, left_out = resolve_columns(source, chosen, taken)
    if isinstance(features, (list, tuple)):
        for name in features:
            if name not in found:
                reason = left_out.get(name, "there is no such column, or it has another role")
                raise FairbanditError(f"{source.name}, column {name!r} is no feature: {reason}")
        found = {name: found[name] for name in features}
    elif left_out:
        text = listed([f"{name!r} ({reason})" for name, reason in left_out.items()])
        remark(f"{source.name}: these columns are no features: {text}; features=[…] chooses others")
    of_groups, _ = resolve_columns(source, dict.fromkeys(groups, "category"), ())
    kept = {name: one for name, one in {**found, **of_groups}.items() if name not in exclude}
    return Encoder.fitted(kept, source, bias=True)


def log_of_table(source: Source, columns: Columns, groups: Sequence[str], encoder: Encoder) -> Log:
    """The log that a table holds; an error names the first row that is not valid."""
    import pandas as pd

    for name in (columns.decision, *groups):
        source.require(name, ~source.gaps(name), "a value")
    labels = {name: source.labels(name).astype(str).astype(object) for name in groups}
    first, *others = labels.values()
    codes, every = pd.factorize(sum((" × " + other for other in others), first), sort=True)
    rows = np.unique(codes, return_index=True)[1]
    by_group = {name: tuple(own[rows].tolist()) for name, own in labels.items()}
    further = {"group_columns": by_group, "features": encoder.names, "encoder": encoder}
    return _log_of(source, columns, (codes, tuple(every)), encoder(source), **further)


@dataclass
class Pool:
    """A decision as a line of a file holds it: its K candidates, and the places of its picks."""

    file: str
    line: int
    name: Any
    labels: Sequence[Hashable]
    picks: Sequence[int]
    propensities: Sequence[float]
    contexts: Any = None

    def __post_init__(self) -> None:
        k = len(self.labels)
        if {k, len(self.propensities), k if self.contexts is None else len(self.contexts)} != {k}:
            raise ValueError(f"expected all parts of {k} candidates")
        hash(tuple(self.labels))  # a TypeError, if a label is an object of JSON
        self.propensities = [number(one, "a propensity") for one in self.propensities]
        self.order = {range(k).index(pick): slot for slot, pick in enumerate(self.picks, 1)}
        self.rewards = dict[int, float]()

    def reward(self, place: int, reward: Any) -> None:
        """Adds the reward of the pick at a place."""
        if place not in self.order or place in self.rewards:
            raise ValueError(f"the reward of candidate {place!r} came already, or it is no pick")
        self.rewards[place] = number(reward, "a reward")

    def rows(self) -> Iterator[tuple[float, float, float, float]]:
        """Line, number of the pick, propensity and reward of each candidate."""
        for place, propensity in enumerate(self.propensities):
            order, reward = self.order.get(place, 0), self.rewards.get(place, math.nan)
            yield self.line, order, propensity, reward


def number(value: Any, name: str) -> float:
    """A number of a line; anything else, or one that is too large, raises `ValueError`."""
    found = float(value) if isinstance(value, (int, float)) else math.nan
    if not abs(found) <= LARGEST:
        raise ValueError(f"{name} is {str(value)[:50]}, and no number of at most {LARGEST:g}")
    return found


def log_of_pools(
    pools: Sequence[Pool], name: str, contexts: Floats | None, unit: str = "line", **further: Any
) -> Log:
    """The log of decisions that lines hold, with the contexts of all their R candidates, (R, d)."""
    import pandas as pd

    if not pools:
        raise FairbanditError(f"{name} holds no decision")
    columns = Columns("decision", "picked", "propensity", "reward", None)
    frame = pd.DataFrame([row for pool in pools for row in pool.rows()], dtype=np.float64)
    frame.columns = columns[:4]
    files = np.repeat([pool.file for pool in pools], [len(pool.labels) for pool in pools])
    frame.index = pd.MultiIndex.from_arrays([files, frame["decision"].astype(np.int64) - 1])
    every = [label for pool in pools for label in pool.labels]
    labels = {label: code for code, label in enumerate(dict.fromkeys(every))}
    groups = np.array([labels[label] for label in every]), tuple(labels)
    further["names"] = [pool.name for pool in pools]
    source = Source(name, list(frame), frame, unit=unit)
    return _log_of(source, columns, groups, contexts, **further)


def _log_of(
    source: Source,
    columns: Columns,
    groups: tuple[Ints, tuple[Any, ...]],
    contexts: Floats | None,
    **further: Any,
) -> Log:
    """The log of the candidates of a table, whose cells are checked here, whoever wrote it."""
    import pandas as pd

    cells, files = source.frame[columns.decision], source.frame.index
    files = files.codes[0] if isinstance(files, pd.MultiIndex) else np.zeros(len(files))
    codes = cells.groupby([files, cells.to_numpy()], sort=False).ngroup().to_numpy()
    order, rewards = source.numbers(columns.picked), source.numbers(columns.reward)
    is_pick = order > 0
    right = pd.Series(order).where(is_pick).groupby(codes).rank(method="first").fillna(0)
    valid: Any = np.equal(right, order) & (np.bincount(codes, is_pick)[codes] > 0)
    expected = "one pick in each decision, or picks that are numbered 1, 2, …; others are 0"
    source.require(columns.picked, valid.to_numpy(), expected)
    source.require(columns.reward, is_pick | np.isnan(rewards), "no reward but for picks")
    chances = _chances(source, columns.propensity, codes, is_pick)
    if contexts is not None:
        finite = np.asarray((np.abs(contexts) <= LARGEST).all(1))
        source.require(columns.decision, finite, f"features of at most {LARGEST:g}")
    scores = None if columns.score is None else source.numbers(columns.score)
    places = pd.Series(codes).groupby(codes).cumcount().to_numpy()
    pools, picks = (codes, places), (codes[is_pick], order[is_pick].astype(np.int64) - 1)
    return Log(
        groups=_spread(groups[0], pools, -1),
        labels=groups[1],
        picks=_spread(places[is_pick], picks, -1),
        rewards=_spread(rewards[is_pick], picks, np.nan),
        propensities=_spread(chances[is_pick], picks, np.nan),
        contexts=_spread(contexts, pools, 0.0),
        probabilities=_spread(None if np.isnan(chances).any() else chances, pools, 0.0),
        scores=_spread(scores, pools, np.nan),
        **{"names": cells[places == 0].tolist(), **further},
    )


def _spread(values: Any, at: tuple[Ints, Ints], empty: float) -> Any:
    """Values (R, …) at their decisions and places, (n, K, …); None stays None."""
    if values is None:
        return None
    decisions, places = at
    shape = decisions.max() + 1, places.max() + 1, *values.shape[1:]
    whole = np.full(shape, empty, values.dtype)
    whole[at] = values
    return whole


def _chances(source: Source, name: str | None, codes: Ints, is_pick: NDArray[np.bool_]) -> Floats:
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
        near = beyond <= OFF * np.bincount(codes)
        alone = (chances == np.bincount(codes, of_pick)[codes]).all() or (chances == of_pick).all()
        expected = f"probabilities that sum to 1 ± {OFF:g} a candidate, or the pick's alone"
        source.require(name, near[codes] | alone, expected)
        if near.all():
            return chances
    return np.where(is_pick, chances, np.nan)

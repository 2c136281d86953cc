"""The common form of all logs: a table with one row for each candidate, which is checked here."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairbandit.environments.columns import (
    CATEGORY,
    FEW,
    check_groups,
    chosen_columns,
    resolve_columns,
)
from fairbandit.environments.encoder import Encoder
from fairbandit.environments.reading import LARGEST, Source, listed, remark
from fairbandit.errors import FairbanditError
from fairbandit.labels import JOINED, coded, normal, spellings
from fairbandit.logs.log import Floats, Ints, Log

MOST_OFF = 0.05
"""A pool's probabilities sum to the number of picks up to this much a pick, however rounded."""

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
    source: Source, taken: Sequence[str], groups: Sequence[str], features: Any, exclude: list[str]
) -> Encoder:
    """The encoder of a table's groups and of its features, which are none of the taken columns."""
    chosen = chosen_columns(features) if isinstance(features, (Mapping, str)) else None
    source.need(chosen or ())
    if roles := [repr(name) for name in chosen or () if name in taken and name not in groups]:
        raise FairbanditError(f"features: {listed(roles)} have another role in the log")
    if by_name := isinstance(features, (list, tuple)):
        taken = [*taken, *(name for name in source.columns if name not in features)]
    remedy = "" if by_name else "features=[…] chooses others"
    found, left_out = resolve_columns(source, chosen, taken, exclude, remedy)
    if by_name:
        for name in features:
            if name not in found:
                reason = left_out.get(name, "there is no such column, or it has another role")
                raise FairbanditError(f"{source.name}, column {name!r} is no feature: {reason}")
        found = {name: found[name] for name in features}
    of_groups, _ = resolve_columns(source, dict.fromkeys(groups, CATEGORY), (), exclude)
    return Encoder.fitted({**found, **of_groups}, source, bias=True)


def outcomes(source: Source, picked: str, taken: Sequence[str]) -> list[str]:
    """The columns that repeat the picks, or are known of picks alone, as outcomes are."""
    picks = source.numbers(picked)
    found = [
        name
        for name in source.frame
        if name not in taken
        and (
            (source.gaps(name) == (picks == 0)).all()
            or (source.fits(name).all() and np.array_equal(source.numbers(name), picks))
        )
    ]
    if found:
        names = listed([*map(repr, found)])
        remark(
            f"{source.name}: columns that are outcomes, known of picks alone, are left out: {names}"
        )
    return found


def log_of_table(
    source: Source, columns: Columns, groups: Sequence[str], encoder: Encoder, like: bool
) -> Log:
    """The log that a table holds; an error names the first row that is not valid.

    Args:
        source, columns, groups: the table, and the columns with a role in it.
        encoder: makes the features.
        like: whether the encoder is that of another table.
    """
    import pandas as pd

    for name in (columns.decision, *groups):
        source.require(name, ~source.gaps(name), "a value")
    codes, every = pd.factorize(source.joined(groups).labels(JOINED.join(groups)), sort=True)
    rows = np.unique(codes, return_index=True)[1]
    by_group = {name: tuple(source.labels(name)[rows].tolist()) for name in groups}
    further: dict[str, Any] = {"group_columns": by_group, "reward": columns.reward}
    further |= {"features": encoder.names, "encoder": encoder}
    contexts, counts = encoder(source), {name: source.gaps(name).sum() for name in encoder.columns}
    if gaps := [f"{count:,} of {name!r}" for name, count in counts.items() if count]:
        remark(f"{source.name}: missing cells of features get the feature's mean: {listed(gaps)}")
    decisions = source.frame[columns.decision].nunique()
    if like and (strange := _strange(contexts, encoder, decisions)):
        remark(
            f"{source.name}: features differ from the table by which they are standardised, by "
            f"other units, swapped columns or a drift: {listed(strange)}"
        )
    return _log_of(source, columns, (codes, tuple(every)), contexts, **further)


def _strange(contexts: Floats, encoder: Encoder, n: int) -> list[str]:
    """The numbers, standardised by another table, whose mean or deviation is far from its own.

    Candidates of one of the n decisions may be alike, so that decisions count and not rows.
    """
    names, numbers = encoder.names, np.isin(encoder.names, encoder.columns)
    means, stds = contexts.mean(0), contexts.std(0)
    chance, wider = 4 / math.sqrt(n), np.abs(np.log2(stds.clip(1e-9)))
    far = (np.abs(means) > max(0.2, chance)) | (wider > max(0.25, chance))
    rows = zip(names, means, stds, far & numbers & (stds > 0), strict=True)
    return [
        f"{name!r} (mean {mean:.3g}, std {std:.3g})" for name, mean, std, found in rows if found
    ]


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
    codes, groups = coded(every, {})
    further["names"] = [pool.name for pool in pools]
    source = Source(name, list(frame), frame, unit=unit)
    return _log_of(source, columns, (codes, spellings(groups)), contexts, **further)


def _log_of(
    source: Source, columns: Columns, groups: tuple[Ints, Any], contexts: Any, **further: Any
) -> Log:
    """The log of the candidates of a table, whose cells are checked here, whoever wrote it."""
    import pandas as pd

    cells, files = source.frame[columns.decision], source.frame.index.get_level_values(0)
    codes = cells.groupby([files, cells.to_numpy()], sort=False).ngroup().to_numpy()
    order, rewards = source.numbers(columns.picked), source.numbers(columns.reward)
    is_pick = order > 0
    right = pd.Series(order).where(is_pick).groupby(codes).rank(method="first").fillna(0)
    valid: Any = np.equal(right, order) & (np.bincount(codes, is_pick)[codes] > 0)
    expected = "one pick in each decision, or picks that are numbered 1, 2, …; others are 0"
    source.require(columns.picked, valid.to_numpy(), expected)
    source.require(columns.reward, is_pick | np.isnan(rewards), "no reward but for picks")
    sizes = np.bincount(groups[0], minlength=len(groups[1])).tolist()
    check_groups(f"{source.name}, the group", dict(zip(map(normal, groups[1]), sizes, strict=True)))
    chances = _chances(source, columns.propensity, codes, is_pick)
    if contexts is not None and contexts.shape[1] > codes.max(initial=0):
        remark(
            f"{source.name}: {contexts.shape[1]:,} features are more than the decisions: ids or "
            "names may be among them; exclude=[…] leaves columns out"
        )
    if contexts is not None:
        finite = np.asarray((np.abs(contexts) <= LARGEST).all(1))
        source.require(columns.decision, finite, f"features of at most {LARGEST:g}")
    scores = None if columns.score is None else source.numbers(columns.score)
    places = pd.Series(codes).groupby(codes).cumcount().to_numpy()
    pools, picks = (codes, places), (codes[is_pick], order[is_pick].astype(np.int64) - 1)
    log = Log(
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
    _check_repeats(log, files[places == 0].to_numpy())
    return log


def _check_repeats(log: Log, files: NDArray[Any]) -> None:
    """Refuses a log in which decisions of a file recur with their names; notes equal decisions.

    `files` names the file of each of the n decisions, (n,).
    """
    import pandas as pd

    draws, n = np.random.default_rng(0), len(log)
    parts = (log.groups, log.picks, log.rewards, log.propensities, log.contexts)
    content = np.zeros(n, np.uint64)
    for part in parts:
        if part is not None and part.size:
            words = np.ascontiguousarray(part).reshape(n, -1).view(np.uint64)
            content += words @ (draws.integers(2**62, size=words.shape[1], dtype=np.uint64) * 2 + 1)
    named = pd.DataFrame({"content": content, "name": np.asarray(log.names)})
    again, (_, first, which, counts) = named.duplicated(), np.unique(content, True, True, True)
    share = again.groupby(files).mean()
    alike = (counts * (counts - 1)).sum() / max(n * (n - 1), 1)  # of two decisions, by chance
    twice = share.max() > alike + 0.4 * (1 - alike)
    if twice and again.sum() >= FEW and named["name"].nunique() > n / 4:
        raise FairbanditError(
            f"{share.idxmax()}: {share.max():.0%} of its decisions recur in the log, by name"
        )
    lags = (np.arange(n) - first[which])[np.arange(n) != first[which]]
    # decisions that are alike by chance recur at many distances, and copies at one distance
    if len(lags) >= max(FEW, n / 100) and np.bincount(lags).max() > max(FEW, len(lags) / 5):
        remark(
            f"{files[0]}: {len(lags):,} of {n:,} decisions equal an earlier one in all that is "
            "logged; where they are the same decisions, intervals are too narrow"
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
        lost = "ips, snips, dr and win cannot be estimated, and direct estimates rest on a model"
        remark(f"{source.name} has no propensities: {lost} of the rewards alone")
        return np.full(len(source), np.nan)
    chances = source.numbers(name)
    known, in_range = ~np.isnan(chances), (chances >= 0) & (chances <= 1 + SINGLE)
    good = np.where(is_pick, in_range & (chances > 0), in_range | ~known)
    source.require(name, good, "a probability, above 0 for the pick")
    chances = chances.clip(max=1)
    of_pick = np.where(is_pick, chances, 0.0)
    if known.all():
        picks, unit = np.bincount(codes, is_pick), rounding_unit(chances)
        beyond = np.abs(np.bincount(codes, chances) - picks)
        allowed = np.maximum(unit * np.bincount(codes), 0.001 * picks)  # or of few digits
        near = beyond <= np.minimum(allowed, MOST_OFF * picks) + SINGLE
        alone = (chances == np.bincount(codes, of_pick)[codes]).all() or (chances == of_pick).all()
        expected = f"probabilities that sum to 1 for each pick, up to {unit:g} a candidate and "
        source.require(name, near[codes] | alone, f"{expected}{MOST_OFF:g}, or the pick's alone")
        if near.all():
            return chances
    return np.where(is_pick, chances, np.nan)


def rounding_unit(chances: Floats) -> float:
    """The largest error of numbers that were rounded to as many decimals as these have, or 0."""
    known = chances[~np.isnan(chances)]
    for decimals in range(1, 9):
        if np.allclose(known, known.round(decimals), rtol=0, atol=1e-12):
            return 0.5 * 10.0**-decimals
    return 0.0

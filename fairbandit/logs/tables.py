"""The common form of all logs: a table with a row for each candidate, which is checked here."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairbandit.errors import FairbanditError
from fairbandit.logs.chain import of_line
from fairbandit.logs.log import Floats, Ints, Log, padded
from fairbandit.logs.mistakes import note_mistakes
from fairbandit.notices import listed, remark
from fairbandit.tables import cells
from fairbandit.tables.cells import LARGEST, About, name_of
from fairbandit.tables.columns import FEW, check_groups
from fairbandit.tables.encoder import Encoder
from fairbandit.tables.labels import JOINED, Codes, coded, normal, words_of

if TYPE_CHECKING:
    import pandas as pd  # imported where it is used, since that takes a third of a second

MOST_OFF = 0.05
"""The largest error of the sum of a pool's probabilities, for each pick, however they round."""

PEOPLE = (
    "audit_table, or `fairbandit audit` with selected=COLUMN, needs no rewards, and takes unknown "
    "groups and any number of picks"
)
"""The remedy for a table with a row for each person, which is not a log."""

SINGLE = 1e-6  # the largest excess over 1 of a probability in single precision


class Columns(NamedTuple):
    """The names of the columns with a role, or None."""

    decision: str
    picked: str
    propensity: str | None
    reward: str
    score: str | None


def log_of_table(
    source: pd.DataFrame, columns: Columns, groups: Sequence[str], encoder: Encoder, like: bool
) -> Log:
    """Returns the log of a table; `like` says that the encoder was fitted to another table."""
    import pandas as pd

    cells.require(source, columns.decision, ~cells.gaps(source, columns.decision), "a value")
    codes, labels = pd.factorize(cells.labels(source, JOINED.join(groups)), sort=True)
    filled = [name for name in encoder.columns if name not in (groups if encoder.labels else ())]
    contexts = encoder.encode_table(source)
    counts = {name: cells.gaps(source, name).sum() for name in filled}
    if gaps := [f"{count:,} of {name!r}" for name, count in counts.items() if count]:
        remark(
            f"{name_of(source)}: missing cells of features get the feature's mean: {listed(gaps)}"
        )
    if like:
        _note_shifts(source, contexts, encoder, source[columns.decision].nunique())
    further: Any = {"reward": columns.reward, "features": encoder.names, "encoder": encoder}
    return _log_of(source, columns, (codes, tuple(labels)), contexts, groups, **further)


def _note_shifts(source: pd.DataFrame, contexts: Floats, encoder: Encoder, n: int) -> None:
    """Notes numbers whose mean or deviation is far from the table that standardises them."""
    names, means, stds = encoder.names, contexts.mean(0), contexts.std(0)
    # of n decisions, since the candidates of one may be alike
    chance, ratios = 4 / math.sqrt(n), np.abs(np.log2(stds.clip(1e-9)))
    far = (np.abs(means) > max(0.2, chance)) | (ratios > max(0.25, chance))
    shifted = far & np.isin(names, encoder.columns) & (stds > 0)
    rows = [(names[at], means[at], stds[at]) for at in np.flatnonzero(shifted)]
    if texts := [f"{name!r} (mean {mean:.3g}, std {std:.3g})" for name, mean, std in rows]:
        remark(
            f"{name_of(source)}: features differ from the table by which they are standardised, by "
            f"other units, swapped columns or a drift: {listed(texts)}"
        )


def period_of(times: Any, zone: str = "+00:00") -> tuple[str, str]:
    """Returns the first and the last of some times in ISO 8601."""
    first, last = (f"{end:%Y-%m-%d %H:%M:%S}{zone}" for end in (times.min(), times.max()))
    return first, last


class Pool(NamedTuple):
    """The decision of a line of a log: its K candidates, and its picks with their rewards."""

    file: str
    line: int
    name: Any
    labels: Sequence[Hashable]
    propensities: Sequence[float]
    picks: Mapping[int, float]  # the reward of each pick, or NaN, by place, in order of preference
    contexts: Any = None
    time: str | None = None  # in ISO 8601
    refused: str = ""  # counts decisions whose propensities are unknown for this reason


def log_of_pools(
    pools: Sequence[Pool],
    name: str,
    contexts: Any,
    unit: str = "line",
    columns: Sequence[str] = (),
    unknown: Sequence[str] = (),
    **further: Any,
) -> Log:
    """Returns the log of the decisions of lines; contexts are of all R candidates, (R, d)."""
    import pandas as pd

    if not pools:
        raise FairbanditError(f"{name} holds no decision")
    rows = list[tuple[str, int, float, float, float]]()
    for pool in pools:
        x = pool.labels if pool.contexts is None else pool.contexts
        if not 0 < len(pool.labels) == len(pool.propensities) == len(x):
            problem = "expected labels, propensities and contexts of the same candidates"
            raise FairbanditError(f"{pool.file}, line {pool.line}: {problem}")
        slots = {place: slot for slot, place in enumerate(pool.picks, 1)}
        for place, propensity in enumerate(pool.propensities):
            reward = pool.picks.get(place, math.nan)
            rows.append((pool.file, pool.line, slots.get(place, 0), propensity, reward))
    roles = Columns("decision", "picked", "propensity", "reward", None)
    frame = pd.DataFrame(rows, columns=["file", *roles[:4]])
    frame.index = pd.MultiIndex.from_arrays([frame.pop("file"), frame["decision"] - 1])
    source = cells.with_about(frame, About(name, list(frame), unit=unit))
    labels = [label for pool in pools for label in pool.labels]
    codes, groups = coded(labels, Codes(words=words_of(unknown)))
    further["names"] = [pool.name for pool in pools]
    with of_line(name):
        times = pd.to_datetime([pool.time for pool in pools], format="ISO8601", utc=True).dropna()
        further["period"] = period_of(times) if len(times) else None
    log = _log_of(source, roles, (codes, groups.spellings), contexts, columns, **further)
    counts = Counter(pool.refused for pool in pools if pool.refused)
    for reason, count in sorted(counts.items(), reverse=True):
        remark(f"{name}: {reason.format(count)}: weighted estimates are refused")
    hidden = np.array([bool(pool.refused) for pool in pools])
    lacking = np.where(hidden[:, None], np.nan, log.propensities)
    return replace(log, propensities=lacking, probabilities=None) if counts else log


def _log_of(
    source: pd.DataFrame,
    columns: Columns,
    groups: tuple[Ints, Any],
    contexts: Any,
    group_columns: Sequence[str],
    **further: Any,
) -> Log:
    import pandas as pd

    decisions, files = source[columns.decision], cells.files_of(source)
    codes = decisions.groupby([files, decisions.to_numpy()], sort=False).ngroup().to_numpy()
    order, rewards = cells.numbers(source, columns.picked), cells.numbers(source, columns.reward)
    is_pick = order > 0
    right = pd.Series(order).where(is_pick).groupby(codes).rank(method="first").fillna(0)
    valid: Any = np.equal(right, order) & (np.bincount(codes, is_pick)[codes] > 0)
    expected = "one pick in each decision, or picks that are numbered 1, 2, …; others are 0 "
    expected += f"({PEOPLE})"
    cells.require(source, columns.picked, valid.to_numpy(), expected)
    cells.require(source, columns.reward, is_pick | np.isnan(rewards), "no reward but for picks")
    sizes, labels = np.bincount(groups[0], minlength=len(groups[1])), [*map(normal, groups[1])]
    check_groups(f"{name_of(source)}, the group", dict(zip(labels, sizes.tolist(), strict=True)))
    chances = _chances(source, columns, codes, is_pick)
    if contexts is not None:
        finite = np.asarray((np.abs(contexts) <= LARGEST).all(1))
        cells.require(source, columns.decision, finite, f"features of at most {LARGEST:g}")
        if contexts.shape[1] > codes.max(initial=0):
            remark(
                f"{name_of(source)}: {contexts.shape[1]:,} features are more than the decisions: "
                "ids or names may be among them; exclude=[…] leaves columns out"
            )
    by_column = {JOINED.join(group_columns): tuple(labels)} if group_columns else {}
    parts = [label.split(JOINED) for label in labels]
    if len(group_columns) > 1 and all(len(part) == len(group_columns) for part in parts):
        by_column = dict(zip(group_columns, zip(*parts, strict=True), strict=True))
    scores = None if columns.score is None else cells.numbers(source, columns.score)
    places = pd.Series(codes).groupby(codes).cumcount().to_numpy()
    by_pool, by_pick = codes.argsort(kind="stable"), np.lexsort((order, codes))
    picked = by_pick[is_pick[by_pick]]
    slots = np.bincount(codes[picked])
    log = Log(
        sizes=np.bincount(codes),
        groups=groups[0][by_pool],
        labels=groups[1],
        picks=padded(slots, places[picked], -1),
        rewards=padded(slots, rewards[picked], np.nan),
        propensities=padded(slots, chances[picked], np.nan),
        contexts=None if contexts is None else contexts[by_pool],
        probabilities=None if np.isnan(chances).any() else chances[by_pool],
        scores=None if scores is None else scores[by_pool],
        group_columns=by_column,
        **{"names": cells.texts(source, columns.decision)[places == 0].tolist(), **further},
    )
    _note_repeats(log, name_of(source))
    note_mistakes(log, name_of(source))
    return log


def _note_repeats(log: Log, name: str) -> None:
    """Notes decisions that are logged twice, unless names recur in most decisions or by chance."""
    import pandas as pd

    rows = log.frame.assign(group=log.groups)  # pandas cannot hash all labels
    n, of_rows = len(log), pd.util.hash_pandas_object(rows, index=False)
    copies = n - len(np.unique(log.sums(of_rows.to_numpy())))  # for any order of candidates
    recurring = n - len({*map(str, log.names)})
    if copies >= max(FEW, n / 100) and recurring / 2 < copies and recurring < 0.75 * n:
        remark(
            f"{name}: {copies:,} of {n:,} decisions equal an earlier one in all that is logged; if "
            "they are the same decisions, intervals are too narrow"
        )


def _chances(
    source: pd.DataFrame, columns: Columns, codes: Ints, is_pick: NDArray[np.bool_]
) -> Floats:
    """Returns the propensities of all rows if all are known; otherwise NaN except for picks."""
    if (name := columns.propensity) is None:
        return np.full(len(source), np.nan)
    chances = cells.numbers(source, name)
    is_known, in_range = ~np.isnan(chances), (chances >= 0) & (chances <= 1 + SINGLE)
    good = np.where(is_pick, in_range & (chances > 0), in_range | ~is_known)
    cells.require(source, name, good, "a probability, above 0 for the pick and at most 1")
    chances = chances.clip(max=1)
    of_picks = np.where(is_pick, chances, np.nan)
    if not is_known.all():
        return of_picks
    picks, unit, picked = np.bincount(codes, is_pick), rounding_unit(chances), chances * is_pick
    allowed = np.maximum(unit * np.bincount(codes), 0.001 * picks)  # or of few digits
    sums = np.bincount(codes, chances)
    off = np.abs(sums - picks)
    near = off <= np.minimum(allowed, MOST_OFF * picks) + SINGLE
    alone = (chances == np.bincount(codes, picked)[codes]).all() or (chances == picked).all()
    at = int((near[codes] | alone).argmin())  # the first wrong row, if any
    expected = (
        f"probabilities that sum to 1 for each pick, up to {unit:g} a candidate and {MOST_OFF:g}, "
        f"or the pick's alone; the {columns.decision} {source[columns.decision].iat[at]} has "
        f"the sum {sums[codes[at]]:.6g}"
    )
    cells.require(source, name, near[codes] | alone, expected)
    return chances if near.all() else of_picks


def rounding_unit(chances: Floats) -> float:
    """Returns the largest error of numbers rounded to as many decimals as these have, or 0."""
    known = chances[~np.isnan(chances)]
    for decimals in range(1, 9):
        if np.allclose(known, known.round(decimals), rtol=0, atol=1e-12):
            return 0.5 * 10.0**-decimals
    return 0.0

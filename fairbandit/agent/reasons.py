"""Why a candidate has its score, and what would make it the choice of the policy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from torch import Tensor

from fairbandit.environments import Encoder
from fairbandit.errors import FairbanditError
from fairbandit.estimators.ties import PLAIN
from fairbandit.logs import Floats
from fairbandit.notices import listed, remark
from fairbandit.selectors import Ranked
from fairbandit.tables.encoder import Cells

if TYPE_CHECKING:
    import pandas as pd

STEPS = [4.0**power for power in range(11)]
"""The distances at which values are tried where no range is known."""

TRIED_IN_RANGE = 100
"""The number of values in the range of a column that are tried where the score is not linear."""

AGAINST = "group", "all"
"""The past candidates with whose mean a score is compared."""


class Asked(NamedTuple):
    """The pool that an explanation is about, and a way to decide it again.

    `play` decides the pool with other contexts (K, d) in the same round, with the same draws. It
    returns the ranked pool, and probabilities, thresholds and numbers to come, (1, 1, K) each.
    """

    contexts: Floats
    names: tuple[str, ...]
    encoder: Encoder | None
    rows: Cells | None  # the raw rows by column, if they are known
    compares: bool  # whether the policy reads past contexts
    picks: int
    play: Callable[[Floats], tuple[Ranked, tuple[Tensor, Tensor | None, Tensor | None]]]

    def chosen(self, place: int, row: Floats) -> bool:
        """Whether a candidate with these features is the choice, exploration aside."""
        chances, thresholds, _ = self.play(self.with_row(place, row))[1]
        chance = float(chances[0, 0, place])
        if thresholds is not None:  # candidates who come one at a time do not compete
            return chance >= 1 - 1e-12
        return int((chances >= chance - 1e-12).sum()) <= self.picks

    def with_row(self, place: int, row: Floats) -> Floats:
        """Returns the contexts of the pool with another context of one candidate."""
        contexts = self.contexts.copy()
        contexts[place] = row
        return contexts

    def values(self, place: int) -> dict[str, Any]:
        """Returns the value of each column of a candidate; see `decoded`."""
        row, encoder, rows = self.contexts[place], self.encoder, self.rows
        missing = [name for name, cells in (rows or {}).items() if cells[place] is None]
        if encoder is not None and rows is None and encoder.fill:
            ends = {name: span for name, (span, _) in encoder.ranges.items() if len({*span}) > 1}
            if doubtful := [repr(name) for name in ends if not row[self.names.index(name)]]:
                remark(
                    f"{listed(doubtful)}: the mean of the encoder's table also stands for a "
                    "missing number; only raw rows tell them apart"
                )
        return self.decoded(row, missing)

    def decoded(self, row: Floats, missing: Sequence[str] = ()) -> dict[str, Any]:
        """Returns the value of each column, in the units of the table if there is an encoder."""
        if self.encoder is not None:
            return self.encoder.decode(row, missing)
        return dict(zip(self.names, row.tolist(), strict=True))

    def moved(self, place: int, column: str, value: Any) -> Floats:
        """Returns the features of a candidate with another number or code in a column."""
        row = self.contexts[place].copy()
        if self.encoder is not None:
            return self.encoder.moved(row, column, value)
        row[self.names.index(column)] = value
        return row


class Needed(NamedTuple):
    """Changes that would make a candidate the choice of the policy, or end this, all else equal.

    Attributes:
        score: the least score with which the candidate is the choice; None if it is not found.
        rank: the relative rank of this score, the share of the group's past scores that are at most
            as large; None without a score, or if the policy does not read past contexts.
        features: a table of the columns of numbers, with `feature`, its `value`, and as `needed`
            the nearest value that suffices alone. For a candidate who is the choice already, the
            column is `keeps`: the last value that suffices. The value is whole if all numbers of
            the column are whole in the encoder's table. It is NaN if no value within the range
            makes a difference or, for a score that is not linear, if none was found. Columns of
            categories follow, except the group: `needed` or `keeps` lists the other codes that
            suffice alone, as a text; NaN if no code does.
        why: a sentence that says why the score is None; "" with a score.
    """

    score: float | None
    rank: float | None
    features: pd.DataFrame
    why: str = ""


def reasons(asked: Asked, place: int, against: str = "group") -> pd.DataFrame:
    """Decomposes a score, less the mean past score; see `Explanation.reasons`."""
    import pandas as pd

    if against not in AGAINST:
        raise FairbanditError(f"against: expected one of {', '.join(AGAINST)}; got {against!r}")
    scored = asked.play(asked.contexts)[0].scored
    theta = scored.models.distinct.theta
    if theta is None:
        raise FairbanditError(
            "reasons need a score that is linear in the features, which this policy's is not"
        )
    if not asked.compares:
        raise FairbanditError(
            "reasons need past contexts, and the rank of this policy keeps none; expected a rank "
            "that reads them, such as pooled_cdf, which orders candidates as their scores do"
        )
    past = scored.past.entries(place if against == "group" else None).numpy()
    if not len(past):
        of = " of the candidate's group" * (against == "group")
        raise FairbanditError(f"reasons need past contexts{of}, and the rank window holds none")
    weights, row, encoder = theta[0, 0].numpy(), asked.contexts[place], asked.encoder
    away = row - past  # exactly 0 in features whose value all these candidates share
    terms = weights * away.mean(0)
    slack = PLAIN * float(np.abs(weights) @ np.abs(away).mean(0))
    columns, pairs = (encoder.sources, encoder.products) if encoder else (asked.names, {})
    differ = {column for column, any_ in zip(columns, away.any(0), strict=True) if any_}
    contributions = dict.fromkeys(columns, 0.0)
    for column, term in zip(columns, terms.tolist(), strict=True):
        first, second = pairs.get(column, (column, column))
        if first not in differ or second not in differ:  # the other column makes the difference
            column = second if first not in differ else first
        contributions[column] += term
    values, means = asked.values(place), asked.decoded(row - away.mean(0))
    rows = []
    for column, term in contributions.items():
        mean = means[column] if isinstance(values[column], float) else None
        rows.append((column, values[column], mean, term if abs(term) > slack else 0.0))
    table = pd.DataFrame(rows, columns=["feature", "value", "mean", "contribution"])
    return table.sort_values("contribution", kind="stable", ignore_index=True)


def needed(asked: Asked, place: int) -> Needed:
    """Finds what makes a candidate the choice, by deciding anew; see `Explanation.needed`."""
    import pandas as pd

    row, encoder, why = asked.contexts[place], asked.encoder, ""
    sure, scored = asked.chosen(place, row), asked.play(asked.contexts)[0].scored
    theta, scores = scored.models.distinct.theta, scored.scores.value[0, 0]
    weights = None if theta is None else theta[0, 0].double().numpy()
    values, means = asked.values(place), asked.decoded(np.zeros_like(row))
    rows = list[tuple[str, Any, Any]]()

    def suffices(column: str, value: Any) -> bool:
        return asked.chosen(place, asked.moved(place, column, value))

    ranges = encoder.ranges if encoder else dict.fromkeys(asked.names, ((), False))
    for column, (span, whole) in ranges.items():
        value = values[column]
        start = means[column] if math.isnan(value) else value
        if span:
            tried = _tried(start, span, whole, weights, partial(asked.moved, place, column))
            paths = [[at for at in tried if at > start], [at for at in tried[::-1] if at < start]]
        else:
            size = max(abs(start), 1.0)
            paths = [[start + sign * size * step for step in STEPS] for sign in (-1, 1)]
        nearest = _nearest(partial(suffices, column), sure, start, paths, whole)
        rows.append((column, value, nearest))
    for column, codes in (encoder.categories if encoder else {}).items():
        value = values[column]
        enough = [str(code) for code in codes if code != value and suffices(column, code)]
        rows.append((column, value, listed(enough) or math.nan))
    names = ["feature", "value", "keeps" if sure else "needed"]
    # objects, since pandas would turn None and whole codes into floats
    features = pd.DataFrame(rows, columns=names, dtype=object if encoder else None)

    if weights is None:
        why = "The score is not linear in the features, so NaN means that no value was found."
    elif not weights.any():
        why = "All weights of the model are 0."
    if weights is None or why:
        return Needed(None, None, features, why)
    score = float(scores[place])

    def lifted(target: float) -> Floats:
        lifted: Floats = row + (target - score) * weights / (weights @ weights)
        return lifted

    size = max(float(scores.max() - scores.min()), abs(score) * 1e-3, 1e-12)
    path = [score + (-size if sure else size) * step for step in STEPS]
    least = _nearest(lambda target: asked.chosen(place, lifted(target)), sure, score, [path])
    if math.isnan(least) and sure:
        why = f"The candidate is the choice with every score from {path[-1]:g} on."
    elif math.isnan(least):
        index = asked.play(asked.with_row(place, lifted(path[-1])))[0].index.value[0, 0]
        above, level = (int((index > index[place] + gap).sum()) for gap in (1e-12, -1e-12))
        why = f"Scores up to {path[-1]:g} are not enough."
        if above < asked.picks < level:
            why = "Others already have the highest possible index, so only a tie is possible."
    if why:
        return Needed(None, None, features, why)
    scored, rank = asked.play(asked.with_row(place, lifted(least)))[0].scored, None
    if asked.compares and float(scored.past.count[0, 0, place]) > 0:
        rank = float((scored.past.count_le() / scored.past.count)[0, 0, place])
    return Needed(float(scored.scores.value[0, 0, place]), rank, features)


def _nearest(
    certain: Callable[[float], bool],
    sure: bool,
    value: float,
    paths: Iterable[Sequence[float]],
    whole: bool = False,
) -> float:
    """Returns the nearest value beside which the choice changes, on paths from the present, or NaN.

    `certain` says whether the candidate is the choice with a value, and `sure` with the present.
    """
    turns = []
    for path in filter(None, paths):
        near = value
        if whole:  # the present value may lie between two whole numbers
            near = float(math.floor(value) if path[0] > value else math.ceil(value))
        for far in path:
            if certain(far) != sure:
                bad, good = (far, near) if sure else (near, far)
                turns.append(_bisected(bad, good, certain, whole))
                break
            near = far
    return min(filter(certain, turns), key=lambda other: abs(other - value), default=math.nan)


def _tried(
    start: float,
    span: Sequence[float],
    whole: bool,
    weights: Floats | None,
    move: Callable[[float], Floats],
) -> list[float]:
    """Returns values of a column in ascending order: the ends of its range, and values between.

    A linear score is a polynomial of a column, of degree 2 with its square and else of degree 1.
    So it turns at most once, at a value that is tried, and the choice changes at most once between
    neighbours. Nothing is known of other scores: evenly spaced values are tried.
    """
    tried = {*span}
    if weights is None:
        tried |= {*np.linspace(span[0], span[1], TRIED_IN_RANGE).tolist()}
    else:
        low, high = min(start, *span), max(start, *span)
        middle, half = (low + high) / 2, (high - low) / 2
        left, centre, right = (float(weights @ move(at)) for at in (low, middle, high))
        bend = left - 2 * centre + right
        if abs(left - right) < 2 * abs(bend):  # the vertex is between the ends
            tried.add(middle + half * (left - right) / (2 * bend))
    if whole:
        tried = {float(side(at)) for at in {start, *tried} for side in (math.floor, math.ceil)}
    return sorted(tried)


def _bisected(
    bad: float, good: float, certain: Callable[[float], bool], whole: bool = False
) -> float:
    """Returns the last of the numbers from a good to a bad one that is good, to the last digit.

    With `whole`, both are whole numbers, and only whole numbers are tried.
    """
    while True:
        middle = (bad + good) / 2
        if whole:
            middle = float(round(middle))
        if middle in (bad, good):
            return good
        bad, good = (bad, middle) if certain(middle) else (middle, good)

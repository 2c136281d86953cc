"""The rates of groups in logged decisions and in tables of people: one table for both.

Intervals are valid for any number of decisions, except for ratios of independent people, which are
approximate.

References: Wilson, "Probable inference, the law of succession, and statistical inference", JASA
1927; Donner and Zou, "Closed-form confidence intervals for functions of the normal mean and
standard deviation", Statistical Methods in Medical Research 2012 (MOVER-R).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.evaluation.estimates import Ends, Moments, Uncertain, share_of
from fairbandit.logs import Floats, Ints
from fairbandit.notices import remark
from fairbandit.runs.intervals import Span
from fairbandit.runs.notices import unknown_rates
from fairbandit.tables.labels import JOINED, UNKNOWN, is_unknown

if TYPE_CHECKING:
    import pandas as pd

Attribute = tuple[Ints, tuple[str, ...]]
"""The code of each person's group, (R,), −1 if it is unknown, and the labels of the groups."""

SMALL_SHARE = 0.02  # groups with a smaller share of the candidates are small

SELECTION, SCORING = "selection", "scoring"
"""The measures: the share of people who were selected, and of those who scored above the median."""

COUNTED = ("measure", "attribute", "group", "received", "selected", "rate", "low", "high")
"""The columns that are counted, before groups are compared."""


def selection_rate(received: Ints | Floats, selected: Ints | Floats) -> Uncertain:
    """Returns Σ selected/Σ received over n decisions; see `share_ends`."""
    if not received.any():
        return Uncertain(math.nan, lambda _: (math.nan, math.nan), 0, 0.0)
    sums = Moments.of(np.stack([selected, received]).astype(np.float64))
    return share_of(sums, 0, 1, int((received > 0).sum()))


def with_pairs(attributes: Mapping[str, Attribute]) -> dict[str, Attribute]:
    """Returns attributes and their pairs, whose label is unknown if either label is."""
    coded = dict(attributes)
    for (left, (groups, labels)), (right, (seconds, names)) in combinations(coded.items(), 2):
        paired = np.where((groups >= 0) & (seconds >= 0), groups * len(names) + seconds, -1)
        present, codes = np.unique(paired, return_inverse=True)
        pairs = [(labels[i // len(names)], names[i % len(names)]) for i in present if i >= 0]
        joined = tuple(map(JOINED.join, pairs))
        coded[JOINED.join((left, right))] = codes - int((present < 0).sum()), joined
    return coded


def rates(
    measures: Mapping[str, Floats],
    attributes: Mapping[str, Attribute],
    decisions: Ints,
    confidence: float,
    *,
    independent: bool = False,
) -> pd.DataFrame:
    """Returns the rates of each group, for each measure and attribute, and compares the groups.

    The `measures` are who was selected, 1 or 0, and the scores, (R,) each, or NaN for people who do
    not count. `decisions` is the number of each person's decision, (R,). Rows of the label
    `UNKNOWN` count the people whose code is −1.
    """
    import pandas as pd

    tables, n = list[pd.DataFrame](), int(decisions.max()) + 1
    for measure, values in measures.items():
        for attribute, (groups, labels) in attributes.items():
            hits = values
            if measure == SCORING:
                scores = values[groups >= 0]
                median = math.nan if np.isnan(scores).all() else np.nanmedian(scores)
                hits = np.where(np.isnan(values), np.nan, values > median)
            rows, ends = list[tuple[Any, ...]](), list[Ends]()
            for code, label in [*enumerate(labels), (-1, UNKNOWN)]:
                here = (groups == code) & ~np.isnan(hits)
                received = np.bincount(decisions[here], minlength=n)
                selected = np.bincount(decisions[here & (hits == 1)], minlength=n)
                if code >= 0 or received.any():
                    rate, counts = selection_rate(received, selected), (received, selected)
                    ends.append(rate.ends)
                    row = *(int(count.sum()) for count in counts), rate.value
                    rows.append((measure, attribute, label, *row, *rate.ends(confidence)))
            table = pd.DataFrame(rows, columns=COUNTED)
            if labels:
                joint_ends = None if independent else ends
                tables.append(compared(table.iloc[: len(labels)].copy(), joint_ends, confidence))
            if len(rows) > len(labels):
                tables.append(table.iloc[len(labels) :].assign(small=False))
    return pd.concat(tables, ignore_index=True)


def compared(table: pd.DataFrame, ends: list[Ends] | None, confidence: float) -> pd.DataFrame:
    """Adds shares, and the ratios of rates to the highest rate of an attribute's larger groups.

    A group of people who did not say is never the reference. The reference may be highest by
    chance, so the intervals of the rates of all groups hold together (Bonferroni), and the ends of
    a ratio are the ratios of opposite ends: the upper end is infinite if the rate of the reference
    may be 0. `ends` is None if all people are independent; then the intervals `ratio_ends` of all
    pairs of groups hold together.
    """
    for share, column in (("share", "received"), ("picked_share", "selected")):
        table[share] = table[column] / table[column].sum()
    table["small"] = table["share"] < SMALL_SHARE
    large = ~(table["small"] | table["group"].map(is_unknown).astype(bool))
    table["impact_ratio"] = table["rate"] / table["rate"].where(large).max()
    best = table.index[(table["impact_ratio"] == 1) & large]
    table["reference"] = table["group"][best[0]] if len(best) else None
    counts = [*table[["selected", "received"]].itertuples(index=False, name=None)]
    g, spans = len(table), list[Span]()
    for at in table.index:
        reference = best[0] if len(best) else at
        if at == reference or not counts[at][1]:
            spans.append((math.nan, math.nan))
        elif ends is None:
            together = 1 - (1 - confidence) / math.comb(g, 2)
            spans.append(ratio_ends(counts[at], counts[reference], together))
        else:
            together = 1 - (1 - confidence) / g
            (low, high), (least, most) = ends[at](together), ends[reference](together)
            spans.append((low / most, high / least if least else math.inf))
    table[["ratio_low", "ratio_high"]] = spans
    return table


def note_unknown(source: str, table: pd.DataFrame) -> None:
    """Notes the selection rate of the people whose group is unknown, by attribute."""
    for attribute, rows in table[table["measure"] == SELECTION].groupby("attribute", sort=False):
        picks = zip(rows["selected"], rows["received"], strict=True)
        if note := unknown_rates(dict(zip(rows["group"], picks, strict=True))):
            remark(f"{source}{attribute}: {note}")


def wilson_ends(hits: int, trials: int, confidence: float) -> Span:
    """Returns Wilson's interval for a probability, from independent events."""
    from scipy.special import ndtri

    square = float(ndtri((1 + confidence) / 2)) ** 2 / trials
    share = hits / trials
    half = math.sqrt(square * (share * (1 - share) + square / 4))
    low, high = ((share + square / 2 + sign * half) / (1 + square) for sign in (-1, 1))
    return (low if hits else 0.0), (high if hits < trials else 1.0)


def ratio_ends(first: tuple[int, int], second: tuple[int, int], confidence: float) -> Span:
    """Returns the interval MOVER-R of the ratio of two probabilities, from independent events.

    `first` and `second` are the numbers of events that happened and of all events. The ends are the
    θ at which the interval of p₁ − θ·p₂ begins or ends at 0. This interval adds the squares of the
    distances between each probability and its end of Wilson's interval. The upper end is infinite
    without an event of the second probability.

    >>> [round(end, 3) for end in ratio_ends((38, 421), (145, 508), 0.95)]
    [0.227, 0.44]
    """
    low, high = wilson_ends(*first, confidence)
    least, most = wilson_ends(*second, confidence)
    p, q = first[0] / first[1], second[0] / second[1]
    above, below = low * (2 * p - low), most * (2 * q - most)
    begin = above / (p * q + math.sqrt((p * q) ** 2 - above * below)) if above and q else 0.0
    above, below = high * (2 * p - high), least * (2 * q - least)
    end = (p * q + math.sqrt((p * q) ** 2 - above * below)) / below if q else math.inf
    return begin, end


def in_words(row: Mapping[str, Any], confidence: float, epsilon: float | None = None) -> str:
    """Returns a row of an audit as a sentence: rates first, and then the results of tests.

    >>> row = {"measure": "selection", "attribute": "sex", "group": "f", "received": 400,
    ...        "selected": 40, "rate": 0.1, "reference": "m", "small": False, "impact_ratio": 0.5,
    ...        "ratio_low": 0.32, "ratio_high": 0.77, "four_fifths": "below", "shortfall": 24,
    ...        "fisher_p": 0.0003}
    >>> in_words(row, 0.95)[:84]
    'sex f: 40 of 400 selected (10.0 %), 0.50 times the rate of m (95 %: 0.32 to 0.77); b'
    """
    verb = "selected" if row["measure"] == SELECTION else "scored above the median"
    words = f"{row['attribute']} {row['group']}{' (small)' * row['small']}: "
    words += f"{row['selected']:,} of {row['received']:,} {verb}"
    words += f" ({100 * row['rate']:.1f} %)" if row["received"] else ""
    if row["group"] == row["reference"]:
        words += ", the rate with which the others are compared"
    elif math.isnan(row["impact_ratio"]):
        why = "no larger group has a rate", "their group is unknown"
        words += f", not compared, since {why[row['group'] == UNKNOWN]}"
    else:
        low, high = row["ratio_low"], row["ratio_high"]
        span = f"{low:.2f} to {high:.2f}" if math.isfinite(high) else f"{low:.2f} or more"
        words += f", {row['impact_ratio']:.2f} times the rate of {row['reference']}"
        words += f" ({100 * confidence:g} %: {span})"
    if isinstance(row.get("four_fifths"), str):
        verdicts = {"below": "below four fifths", "above": "not below four fifths"}
        fifths = verdicts.get(row["four_fifths"], "this may be below or above four fifths")
        more = f"; {row['shortfall']:,} more would make it four fifths" * bool(row["shortfall"])
        words += f"; {fifths}{more}; Fisher's exact test has p = {row['fisher_p']:.2g}"
    if "choices" in row and row["measure"] == SELECTION:
        shares = (f"{100 * row[name]:.3g} %" for name in ("picked_share", "share"))
        words += ", {} of the picks for {} of the candidates".format(*shares)
        if epsilon is not None and not math.isnan(row["gap"]):
            words += _of_parity(row, confidence, epsilon)
    return f"{words}."


def _of_parity(row: Mapping[str, Any], confidence: float, epsilon: float) -> str:
    allowed, gap = f"ε = {100 * epsilon:g} points", row["gap"]
    if isinstance(row["parity_at"], int):
        return f"; parity up to {allowed} is rejected, first at decision {row['parity_at']:,}"
    shows = f"no more than the allowed {allowed} in this log"
    if abs(gap) > epsilon:
        p = f"the test of parity has p = {row['parity_p']:.2g}, corrected for all rows"
        shows = f"more than the allowed {allowed}, which may be chance: {p}, above "
        shows += f"{1 - confidence:g}"
    decisions = f"{int(row['choices']):,} decision{'s' * (row['choices'] != 1)}"
    return (
        f"; in the {decisions} with a choice, the share of the picks was {100 * abs(gap):.1f} "
        f"points {'above' if gap > 0 else 'below'} the share of the candidates, {shows}"
    )

"""Selection rates of groups, and the test of parity of runs.

Intervals are valid for any number of decisions, except those of the ratios of independent people,
which are approximate. Pearson's χ² test is not used: for many rounds of few replicas its true level
is several times the nominal level.

References: Wilson, "Probable inference, the law of succession, and statistical inference", JASA
1927; Donner and Zou, "Closed-form confidence intervals for functions of the normal mean and
standard deviation", Statistical Methods in Medical Research 2012 (MOVER-R).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.errors import renamed
from fairbandit.evaluation.estimates import Ends, Moments, Uncertain, checked_confidence
from fairbandit.evaluation.groups import SMALL
from fairbandit.logs import Floats, Ints
from fairbandit.notices import remark
from fairbandit.runs.intervals import SHARE, Span, mean_band
from fairbandit.runs.notices import unknown_rates
from fairbandit.tables.labels import is_unknown

if TYPE_CHECKING:
    import pandas as pd

CONFIDENCE_OF_RUNS = 0.999
"""The default family-wise confidence of each run's test and of its band."""


def selection_rate(received: Ints | Floats, selected: Ints | Floats) -> Uncertain:
    """Returns Σ selected/Σ received over n decisions or replicas; see `share_ends`.

    >>> rate = selection_rate(np.full(4, 2), np.zeros(4, dtype=int))
    >>> rate.value, [round(end, 3) for end in rate.ends(0.95)]
    (0.0, [0.0, 0.602])
    """
    if not received.any():
        return Uncertain(math.nan, lambda _: (math.nan, math.nan), 0, 0.0)
    sums = Moments.of(np.stack([selected, received]).astype(np.float64))
    return sums.ratio(0, 1, 1, int((received > 0).sum()), SHARE, share=True)


def compared(
    table: pd.DataFrame, by: list[str], rates: Sequence[Ends] | None, confidence: float
) -> pd.DataFrame:
    """Adds `share`, `small`, and the ratios of rates to the highest rate of groups not small.

    A group of people who did not say is never the reference, and a notice gives its rate.
    `picked_share` is the group's share of the picks, `reference` has the highest rate, and
    `ratio_low` to `ratio_high` is the interval of the ratio to it. Groups are compared within equal
    values of the columns `by`. `rates` returns the ends of the rate of each row. The reference may
    be highest by chance, so the intervals of the rates of all groups hold together (Bonferroni),
    and the ends of a ratio are the ratios of opposite ends. The upper end is infinite if the rate
    of the reference may be 0. `rates` is None if all people are independent; then the intervals
    `ratio_ends` of all pairs of groups hold together.
    """
    for share, counted in (("share", "received"), ("picked_share", "selected")):
        table[share] = table[counted] / table.groupby(by)[counted].transform("sum")
    table["small"] = table["share"] < SMALL
    apart = table["small"] | table["group"].map(is_unknown).astype(bool)
    for key, rows in table.groupby(by, sort=False):
        picks = zip(rows["selected"], rows["received"], strict=True)
        if note := unknown_rates(dict(zip(rows["group"], picks, strict=True))):
            remark(f"{', '.join(map(str, key))}: {note}")
    for rate, ratio in (("rate", "impact_ratio"), ("scoring_rate", "scoring_ratio")):
        if rate in table:
            large = table.assign(large=table[rate].where(~apart)).groupby(by)["large"]
            table[ratio] = table[rate] / large.transform("max")
    best = table["group"].where((table["impact_ratio"] == 1) & ~apart)
    table["reference"] = best.groupby([table[name] for name in by]).transform("first")
    keys = [*table[[*by, "group"]].itertuples(index=False, name=None)]
    references = [*table[[*by, "reference"]].itertuples(index=False, name=None)]
    places = {key: at for at, key in enumerate(keys)}
    sizes = Counter(key[:-1] for key in keys)
    counts = [*table[["selected", "received"]].itertuples(index=False, name=None)]
    spans = []
    for at, (key, reference) in enumerate(zip(keys, references, strict=True)):
        other, g = places.get(reference, at), sizes[key[:-1]]
        if at == other or not counts[at][1]:
            spans.append((math.nan, math.nan))
        elif rates is None:
            together = 1 - (1 - confidence) / math.comb(g, 2)
            spans.append(ratio_ends(counts[at], counts[other], together))
        else:
            together = 1 - (1 - confidence) / g
            (low, high), (least, most) = rates[at](together), rates[other](together)
            spans.append((low / most, high / least if least else math.inf))
    table[["ratio_low", "ratio_high"]] = spans
    return table


def wilson_ends(hits: int, trials: int, confidence: float) -> Span:
    """Returns Wilson's interval for a probability, from independent events."""
    from scipy.special import ndtri

    square = float(ndtri((1 + confidence) / 2)) ** 2 / trials
    share = hits / trials
    half = math.sqrt(square * (share * (1 - share) + square / 4))
    low, high = ((share + square / 2 + sign * half) / (1 + square) for sign in (-1, 1))
    return (low if hits else 0.0), (high if hits < trials else 1.0)


def ratio_ends(one: tuple[int, int], other: tuple[int, int], confidence: float) -> Span:
    """Returns the interval MOVER-R of the ratio of two probabilities, from independent events.

    `one` and `other` are the number of events that happened and the number of all.

    Its ends are the θ at which the interval of p₁ − θ·p₂ begins or ends at 0. This interval adds
    the squares of the distances between each probability and its end of Wilson's interval. The
    upper end is infinite without an event of the second probability.

    >>> [round(end, 3) for end in ratio_ends((38, 421), (145, 508), 0.95)]
    [0.227, 0.44]
    """
    low, high = wilson_ends(*one, confidence)
    least, most = wilson_ends(*other, confidence)
    p, q = one[0] / one[1], other[0] / other[1]
    above, below = low * (2 * p - low), most * (2 * q - most)
    begin = above / (p * q + math.sqrt((p * q) ** 2 - above * below)) if above and q else 0.0
    above, below = high * (2 * p - high), least * (2 * q - least)
    end = (p * q + math.sqrt((p * q) ** 2 - above * below)) / below if q else math.inf
    return begin, end


def in_words(
    row: Mapping[str, Any], confidence: float, epsilon: float | None = None, *, small: bool = False
) -> str:
    """Returns a row of an audit as a sentence: rates first, then the result of the test of parity.

    `small` says whether some groups of the audit are small.

    >>> row = {"attribute": "sex", "group": "f", "share": 0.47, "picked_share": 0.37,
    ...        "impact_ratio": 0.653, "ratio_low": 0.58, "ratio_high": 0.73, "reference": "m",
    ...        "received": 20, "selected": 9, "choices": 8, "gap": -0.1, "parity_at": None,
    ...        "parity_p": 0.3, "small": False}
    >>> in_words(row, 0.95)[:62]
    'sex f: picked 0.65 times as often as m (95 %: 0.58 to 0.73), 3'
    >>> in_words(row, 0.95, 0.02).partition("; ")[2][:78]
    'in the 8 decisions with a choice, the share of the picks was 10.0 points below'
    >>> in_words({**row, "selected": 0}, 0.95)[:29]
    'sex f: never picked (0 of 20)'
    """
    ratio, low, high = (row[name] for name in ("impact_ratio", "ratio_low", "ratio_high"))
    words = f"{row.get('attribute') or row['run']} {row['group']}{' (small)' * row['small']}: "
    if not row["selected"]:
        words += f"never picked (0 of {row['received']:,}), "
    elif row["group"] == row["reference"]:
        words += f"picked most often{' of the larger groups' * small}, "
    elif not math.isnan(ratio):
        upper = f"{low:.2f} to {high:.2f}" if math.isfinite(high) else f"{low:.2f} or more"
        ends = f" ({100 * confidence:g} %: {upper})" * (not math.isnan(low))
        words += f"picked {ratio:.2f} times as often as {row['reference']}{ends}, "
    shares = (f"{100 * row[name]:.3g} %" for name in ("picked_share", "share"))
    words += "{} of the picks for {} of the candidates".format(*shares)
    if epsilon is None or math.isnan(gap := row["gap"]):
        return f"{words}."
    allowed, at = f"ε = {100 * epsilon:g} points", row["parity_at"]
    if isinstance(at, int):
        return f"{words}; parity up to {allowed} is rejected, first at decision {at:,}."
    side, shows = "above" if gap > 0 else "below", "no more than the allowed {} in this log"
    if abs(gap) > epsilon:
        p = f"the test of parity has p = {row['parity_p']:.2g}, corrected for all rows"
        shows = f"more than the allowed {{}}, which may be chance: {p}, above {1 - confidence:g}"
    decisions = f"{row['choices']:,} decision{'s' * (row['choices'] != 1)}"
    return (
        f"{words}; in the {decisions} with a choice, the share of the picks was "
        f"{100 * abs(gap):.1f} points {side} the share of the candidates, {shows.format(allowed)}."
    )


@renamed
def examine_counts(
    counts: Ints,
    received: Floats,
    groups: Sequence[str],
    *,
    own_places: bool,
    reads_past: bool,
    picks: int = 1,
    confidence: float = CONFIDENCE_OF_RUNS,
) -> pd.DataFrame:
    """Estimates the pick probabilities of a run of T rounds, and tests them for parity.

    Parity is rejected if an interval of `mean_band`, with Bonferroni's correction over all
    intervals, does not contain the probability under parity.

    *One candidate of each group in every pool* (`DGP`, `pr:gmdm`): in each round, the share of n
    replicas that pick a group must be 1/K, or min(m, K)/K for m picks from a pool. Each interval
    has error α/(T·K) with α = 1 − confidence, so deviations of about √(2·log(2TK/α)/(K·n)) are
    rejected.

    *Pools of mixed groups* (`pr:gmdm_2`): a group with k of a pool's K candidates must be picked
    with probability k/K. The group's picks in all rounds are tested against their expected number,
    given the pools. This requires independent picks: one pick per pool, by a policy whose parts do
    not read the past. For other policies, only the rates are computed.

    Neither is tested with too few replicas: then the intervals of a group that is never picked, or
    always, contain the probability under parity, too. The `verdict` names the number needed.

    Args:
        counts, received, groups: the picks of each group in each round, summed over replicas,
            (T, G); its candidates in all rounds and replicas, (G,); and its name.
        own_places: whether each pool has one candidate of each group, so that a place is a group.
        reads_past: whether a pick may depend on earlier rounds.
        picks: m, the number of candidates picked from each pool.
        confidence: a lower bound of the probability that a run with parity is not rejected, and
            that the band covers all probabilities, for any number of replicas, rounds and groups.

    Returns:
        One row for each group and round, or for all rounds if groups are mixed: `round`, `group`,
        `selected`, `received`, the `target`, the `rate` and its band `low` to `high`, and the
        `verdict` on the run. Unknown values are NaN.

    Raises:
        FairbanditError: the confidence is not between 0 and 1.
    """
    import pandas as pd

    error, here = 1 - checked_confidence(confidence), received > 0
    selected = counts if own_places else counts.sum(0, keepdims=True)
    n, g = selected.shape
    places = received.sum() / counts.sum()  # fractional if some places are empty
    each = np.where(here, received / n, np.nan)
    low, high = np.full((2, n, g), np.nan)
    if not own_places and picks > 1:
        verdict = "not tested: several picks from a pool depend on each other"
    elif not own_places and places % 1:
        verdict = "not tested: empty places"
    elif not own_places and reads_past:
        verdict = "not tested: picks may depend on the past"
    else:
        decisions = selected[0].sum() // min(picks, g)  # each decision picks a group at most once
        shares = each / places / decisions  # of decisions that pick a group, under parity
        bonferroni = error / selected[:, here].size
        low, high = mean_band(selected, decisions, 1 - bonferroni)
        # the bands of a group that is never or always picked miss a share above so many decisions
        farthest = max(np.nanmax(shares), 1 - np.nanmin(shares))
        with np.errstate(divide="ignore"):
            needed = max(math.log(bonferroni / 2) / np.log1p(-farthest), 1 / farthest)
        each_replica = 1 if own_places else len(counts)
        replicas = decisions // each_replica, math.floor(needed / each_replica) + 1
        verdict = "not tested: too few replicas ({:,} of the {:,} needed)".format(*replicas)
        if decisions > needed:
            missed = bool(((low > shares) | (high < shares)).any())
            verdict = f"parity {'' if missed else 'not '}rejected"
        low, high = (decisions / each * end for end in (low, high))
    columns = {
        "round": pd.array(np.arange(1, n + 1).repeat(g) if own_places else [None] * g, "Int64"),
        "group": [*groups] * n,
        "selected": selected.ravel(),
        "received": np.tile(received / n, n).astype(np.int64),
        "target": 1 / places,
        "rate": (selected / each).ravel(),
        "low": low.ravel(),
        "high": high.ravel(),
        "verdict": verdict,
    }
    return pd.DataFrame(columns)

"""Selection rates of groups, and the test of parity of runs.

All intervals are valid for any number of decisions. Pearson's χ² test is not used: for many rounds
of few replicas its true level is several times the nominal level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fairbandit.evaluation.estimates import checked_level
from fairbandit.evaluation.groups import SMALL
from fairbandit.logs import Floats, Ints

if TYPE_CHECKING:
    import pandas as pd

LEVEL = 0.001
"""The default family-wise level of each run's test and of its band."""

WIDEST = 1_000
"""The largest factor between a ratio of rates and an end of its interval."""


def mean_band(hits: ArrayLike, trials: ArrayLike, level: float) -> tuple[Floats, Floats]:
    """Returns Clopper and Pearson's intervals for the mean probabilities of independent events.

    The lower end is the p with P(X ≥ hits) = level/2, X ~ Bin(n, p), and the upper end the p with
    P(X ≤ hits) = level/2. The events may have different probabilities; the interval then covers
    their mean. Binomial tails bound the tails of such sums beyond a distance of 1 from the mean,
    and each end is at least 1/n away from hits/n (Hoeffding, "On the distribution of the number of
    successes in independent trials", Annals of Mathematical Statistics 1956, Theorem 4).

    Args:
        hits, trials: the number of events that happened, and the number n ≥ 1 of all; any shape.
        level: the largest probability that a single interval misses.

    >>> low, high = mean_band([25], 100, level=0.05)
    >>> [round(float(end[0]), 3) for end in (low, high)]
    [0.169, 0.347]
    """
    from scipy.stats import beta

    k, n = np.asarray(hits), np.asarray(trials)
    low = np.minimum(beta.ppf(level / 2, k, n - k + 1), (k - 1) / n)
    high = np.maximum(beta.isf(level / 2, k + 1, n - k), (k + 1) / n)
    return np.where(k > 0, low, 0.0), np.where(k < n, high, 1.0)


def selection_rate(
    received: Ints | Floats, selected: Ints | Floats, level: float
) -> tuple[float, float, float]:
    """Returns Σ selected/Σ received over n decisions, and its interval with error `level`.

    The picks of a pool depend on each other, so the variance of the ratio is estimated by the
    variance of (selectedᵢ − rate·receivedᵢ)/mean received over n. Clopper and Pearson's interval is
    then computed for the number of independent candidates with the same variance (Korn and
    Graubard, Survey Methodology 1998), for all candidates if none or all of them are selected, or
    for n if all decisions have the same rate.

    >>> [round(x, 3) for x in selection_rate(np.full(4, 2), np.zeros(4, dtype=int), 0.05)]
    [0.0, 0.0, 0.369]
    """
    if not received.any():
        return math.nan, math.nan, math.nan
    trials = float(received.sum())
    rate = float(selected.sum() / trials)
    if 0 < rate < 1:
        influence = (selected - rate * received) / received.mean()
        if len(influence) == 1:
            return rate, math.nan, math.nan
        variance = influence.var(ddof=1) / len(influence)
        trials = rate * (1 - rate) / variance if variance else len(influence)
    low, high = mean_band(rate * trials, trials, level)
    return rate, float(low.clip(min=0)), float(high.clip(max=1))


def ratio_interval(
    one: tuple[Floats, Floats], other: tuple[Floats, Floats], level: float
) -> tuple[float, float]:
    """Returns the interval of the ratio of two rates over the same n units, with error `level`.

    A unit is a decision of a log, or a replica of a run. Each group has the numbers received and
    selected in each unit, (n,) each, and the rate Σ selected/Σ received. By the delta method, the
    logarithm of the ratio has about the variance of the mean over units of Dᵢ/mean selected of one
    group minus Dᵢ/mean selected of the other, where Dᵢ = selectedᵢ − rate·receivedᵢ. The interval
    has Student's quantile. If none of the first group was selected, it reaches from 0 to the ratio
    of the ends of both rates. It is unknown if none of the other was selected, or if so few units
    leave a factor of `WIDEST` open to both sides.

    >>> ones, picks = np.ones(4), np.array([1, 0, 1, 0])
    >>> [round(end, 2) for end in ratio_interval((ones, picks), (2 * ones, 1 - picks), 0.5)]
    [0.83, 4.84]
    """
    from scipy.stats import t

    n, (received, selected), (received_other, selected_other) = len(one[0]), one, other
    if n < 2 or not selected_other.any():
        return math.nan, math.nan
    if not selected.any():
        high = selection_rate(received, selected, level / 2)[2]
        low = selection_rate(received_other, selected_other, level / 2)[1]
        return 0.0, high / low if low else math.inf
    rates = selected.sum() / received.sum(), selected_other.sum() / received_other.sum()
    influence = (selected - rates[0] * received) / selected.mean()
    influence = influence - (selected_other - rates[1] * received_other) / selected_other.mean()
    half = float(t.isf(level / 2, n - 1) * influence.std(ddof=1) / math.sqrt(n))
    if half > math.log(WIDEST):
        return math.nan, math.nan
    return float(rates[0] / rates[1] * math.exp(-half)), float(rates[0] / rates[1] * math.exp(half))


def compared(
    table: pd.DataFrame, by: list[str], counts: Sequence[tuple[Any, Any]], level: float
) -> pd.DataFrame:
    """Adds `share`, `small`, and the ratios of rates to the highest rate of groups not small.

    `picked_share` is the group's share of the picks, `reference` has the highest rate, and
    `ratio_low` to `ratio_high` is the interval of the ratio to it; see `ratio_interval`.
    Groups are compared within equal values of the columns `by`. `counts` has the numbers received
    and selected of each row by unit. Some interval among the groups that are compared misses with
    probability `level`: the reference may be highest by chance, so Bonferroni's correction counts
    all pairs of groups.
    """
    for share, counted in (("share", "received"), ("picked_share", "selected")):
        table[share] = table[counted] / table.groupby(by)[counted].transform("sum")
    table["small"] = table["share"] < SMALL
    for rate, ratio in (("rate", "impact_ratio"), ("scoring_rate", "scoring_ratio")):
        if rate in table:
            large = table.assign(large=table[rate].where(~table["small"])).groupby(by)["large"]
            table[ratio] = table[rate] / large.transform("max")
    best = table["group"].where((table["impact_ratio"] == 1) & ~table["small"])
    table["reference"] = best.groupby([table[name] for name in by]).transform("first")
    rows = dict(zip(table[[*by, "group"]].itertuples(index=False, name=None), counts, strict=True))
    others = table[[*by, "reference"]].itertuples(index=False, name=None)
    sizes = table.groupby(by)["group"].transform("size")
    ends = [
        (math.nan, math.nan)
        if key[-1] == other[-1] or other not in rows
        else ratio_interval(own, rows[other], level / math.comb(size, 2))
        for (key, own), other, size in zip(rows.items(), others, sizes, strict=True)
    ]
    table[["ratio_low", "ratio_high"]] = ends
    return table


def in_words(
    row: Mapping[str, Any], level: float, epsilon: float | None = None, *, small: bool = False
) -> str:
    """Returns a row of an audit as a sentence: rates first, then the result of the test of parity.

    `small` says whether some groups of the audit are small.

    >>> row = {"attribute": "sex", "group": "f", "share": 0.47, "picked_share": 0.37,
    ...        "impact_ratio": 0.653, "ratio_low": 0.58, "ratio_high": 0.73, "reference": "m",
    ...        "received": 20, "selected": 9, "choices": 8, "gap": -0.1, "parity_at": None,
    ...        "parity_p": 0.3, "small": False}
    >>> in_words(row, 0.05)[:62]
    'sex f: picked 0.65 times as often as m (95 %: 0.58 to 0.73), 3'
    >>> in_words(row, 0.05, 0.02).partition("; ")[2][:78]
    'in the 8 decisions with a choice, the share of the picks was 10.0 points below'
    >>> in_words({**row, "selected": 0}, 0.05)[:29]
    'sex f: never picked (0 of 20)'
    """
    ratio, low, high = (row[name] for name in ("impact_ratio", "ratio_low", "ratio_high"))
    words = f"{row.get('attribute') or row['run']} {row['group']}{' (small)' * row['small']}: "
    if not row["selected"]:
        words += f"never picked (0 of {row['received']:,}), "
    elif row["group"] == row["reference"]:
        words += f"picked most often{' of the larger groups' * small}, "
    elif not math.isnan(ratio):
        ends = f" ({100 * (1 - level):g} %: {low:.2f} to {high:.2f})" * (not math.isnan(low))
        words += f"picked {ratio:.2f} times as often as {row['reference']}{ends}, "
    shares = (f"{100 * row[name]:.3g} %" for name in ("picked_share", "share"))
    words += "{} of the picks for {} of the candidates".format(*shares)
    if epsilon is None or math.isnan(gap := row["gap"]):
        return f"{words}."
    allowed, at = f"ε = {100 * epsilon:g} points", row["parity_at"]
    if isinstance(at, int):
        return f"{words}; parity up to {allowed} is rejected, first at decision {at:,}."
    side, shows = "above" if gap > 0 else "below", "within {}, which does not show parity"
    if abs(gap) > epsilon:
        p = f"p = {row['parity_p']:.2g}, corrected for all rows"
        shows = f"beyond {{}}, but the test of parity does not reject at level {level:g} ({p})"
    decisions = f"{row['choices']:,} decision{'s' * (row['choices'] != 1)}"
    return (
        f"{words}; in the {decisions} with a choice, the share of the picks was "
        f"{100 * abs(gap):.1f} points {side} the share of the candidates, {shows.format(allowed)}."
    )


def examine_counts(
    counts: Ints,
    received: Floats,
    groups: Sequence[str],
    *,
    own_places: bool,
    reads_past: bool,
    picks: int = 1,
    level: float = LEVEL,
) -> pd.DataFrame:
    """Estimates the pick probabilities of a run of T rounds, and tests them for parity.

    Parity is rejected if an interval of `mean_band`, with Bonferroni's correction over all
    intervals, does not contain the probability under parity.

    *One candidate of each group in every pool* (`DGP`, `pr:gmdm`): in each round, the share of n
    replicas that pick a group must be 1/K, or min(m, K)/K for m picks from a pool. Each interval
    has error level/(T·K), so deviations of about √(2·log(2TK/level)/(K·n)) are rejected.

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
        level: the family-wise level: an upper bound on the probability that a run with parity is
            rejected, and that the band misses a probability, for any number of replicas, rounds
            and groups.

    Returns:
        One row for each group and round, or for all rounds if groups are mixed: `round`, `group`,
        `selected`, `received`, the `target`, the `rate` and its band `low` to `high`, and the
        `verdict` on the run. Unknown values are NaN.

    Raises:
        FairbanditError: the level is not between 0 and 1.
    """
    import pandas as pd

    level, here = checked_level(level), received > 0
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
        bonferroni = level / selected[:, here].size
        low, high = mean_band(selected, decisions, bonferroni)
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

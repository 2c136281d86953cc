"""Estimates by group: plain sums, jackknives, what compares groups, and where they are refused."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from fairbandit import FairbanditError
from fairbandit.evaluation import evaluate
from fairbandit.evaluation.choosing import best_of, chosen
from fairbandit.evaluation.direct import direct_estimates, direct_values
from fairbandit.evaluation.estimates import Uncertain, by_group
from fairbandit.evaluation.sums import Sums, weighted_rewards
from fairbandit.logs import Log
from tests.evaluation.logs import random_log, span_of, target


def shortlists(n: int) -> tuple[Log, Any, Any]:
    """A log of one or two picks, of which some have no reward; probabilities and scores."""
    log, draw = random_log(n, 5), np.random.default_rng(6)
    second = np.where(np.arange(n) % 3 == 0, -1, (log.picks[:, 0] == 0).astype(int))
    picks = np.append(log.picks, second[:, None], 1)
    p = np.append(log.propensities, np.where(second < 0, math.nan, 0.4)[:, None], 1)
    rewards = np.where(picks < 0, math.nan, draw.normal(size=picks.shape))
    rewards[::7, 0] = math.nan
    log = random_log(n, 5, picks=picks, rewards=rewards, propensities=p, probabilities=None)
    chances = target(log) * (picks >= 0).sum(1)[log.decisions]
    return log, chances, draw.normal(size=len(chances))


@pytest.mark.parametrize("label", ["a", "b", "c", "all"])
def test_estimates_are_plain_sums(label):
    """By a loop over decisions, candidates and picks, for a group of its own or all picks."""
    log, rows, scores_of_rows = shortlists(60)
    sums = Sums.of(log, rows, scores_of_rows)
    chances, scores = log.padded(rows, 0.0), log.padded(scores_of_rows, 0.0)
    share = picks = candidates = wr = w = robust = of_known = 0.0
    for i in range(60):
        m = sum(log.picks[i] >= 0)
        labels = ["abc"[log.groups[log.starts[i] + a]] for a in range(log.sizes[i])]
        own = [a for a in range(log.sizes[i]) if label in ("all", labels[a])]
        share += sum(chances[i, a] for a in own) / m / 60
        picks += sum(chances[i, a] for a in own)
        candidates += len(own)
        if np.isnan(log.rewards[i, :m]).any():
            continue
        of_known += sum(chances[i, a] for a in own) / m
        robust += sum(chances[i, a] * scores[i, a] for a in own) / m
        for a, r, p in zip(log.picks[i, :m], log.rewards[i], log.propensities[i], strict=False):
            weight = chances[i, a] / p / m * (a in own)
            wr, w = wr + weight * r, w + weight
            robust += weight * (r - scores[i, a])
    right = {"ips": wr / of_known, "snips": wr / w, "dr": robust / of_known}
    picked = sums.picked if label == "all" else sums.groups[label].picked
    values = weighted_rewards(picked, 60, (-9, 9))
    assert {key: of.value for key, of in values} == pytest.approx(right)
    if label != "all":
        found = {measure: of.value for measure, _, of in sums.estimates((-9, 9))}
        assert found[f"share:{label}"] == pytest.approx(share)
        assert found[f"selection:{label}"] == pytest.approx(picks / candidates)


@pytest.mark.parametrize("label", ["b", "all"])
def test_intervals_are_those_of_a_jackknife(label):
    log, chances = random_log(400), target(random_log(400))
    sums = Sums.of(log, chances, np.zeros(len(chances)))
    picked = sums.picked if label == "all" else sums.groups["b"].picked
    weights, r = log.at_picks(chances)[:, 0] / log.propensities[:, 0], log.rewards[:, 0]
    own = (log.groups == 1) | (label == "all")
    w = weights * log.at_picks(own)[:, 0]
    share = log.sums(np.where(own, chances, 0.0))
    ways = {"ips": (w * r, share), "snips": (w * r, w)}
    ess = w.sum() ** 2 / (w**2).sum()
    squares = w**2
    freedom = squares.sum() ** 2 / (squares**2).sum() - 1
    assert sums.largest == pytest.approx(weights.max())
    for name, found in weighted_rewards(picked, 400, span_of(log)):
        if name not in ways:
            continue
        above, below = ways[name]
        without = (above.sum() - above) / (below.sum() - below)
        spread = math.sqrt(((without - without.mean()) ** 2).sum() * ess / (ess - 1))
        low, high = found.ends(0.9)
        assert found.ess == pytest.approx(ess)
        half = t.ppf(0.95, freedom) * spread  # the intervals that are joined with it are near it
        assert half * 0.97 < (high - low) / 2 < half * 1.2


def test_what_compares_groups_holds_all_that_their_intervals_allow():
    """The ends are the least and greatest over the intervals at confidence 1 − α/G."""
    ends = {"a": (0.2, 0.3), "b": (0.25, 0.6), "c": (0.55, 0.7)}
    asked = list[float]()

    def interval(label: str) -> Any:
        def ends_at(level: float) -> tuple[float, float]:
            asked.append(level)
            return ends[label]

        return ends_at

    groups = {of: Uncertain(sum(ends[of]) / 2, interval(of), 9, 5.0) for of in ends}
    grids = np.meshgrid(*(np.linspace(*ends[of], 21) for of in ends))
    least, most = np.min(grids, axis=0), np.max(grids, axis=0)
    for measure, values in (("selection", least / most), ("rank", most - least)):
        *_, (_, _, across) = by_group(measure, "dr", groups, whole=True)
        assert across.ends(0.95) == pytest.approx((values.min(), values.max()))
    assert asked == pytest.approx([1 - 0.05 / 3] * 6)
    names = [measure for measure, *_ in by_group("rank", "dr", groups, whole=False)]
    assert names == ["rank:a", "rank:b", "rank:c"]


@pytest.mark.parametrize("known", ["all", "picks"])
def test_a_group_without_support_is_refused_and_the_others_are_not(known):
    """The log never picks candidates of group c."""
    log, draw = random_log(600), np.random.default_rng(3)
    groups, chances = log.padded(log.groups, -1), log.padded(log.probabilities, 0.0)
    p = np.where(groups == 2, 0.0, chances)
    groups = np.where((p.sum(1, keepdims=True) == 0) & (groups == 2), 0, groups)  # c alone
    p = np.where(groups == 2, 0.0, chances)
    p /= p.sum(1, keepdims=True)
    picks = (p.cumsum(1) > draw.random((600, 1))).argmax(1)[:, None]
    log = random_log(
        600,
        groups=groups,
        picks=picks,
        rewards=draw.normal(size=(600, 1)),
        propensities=np.take_along_axis(p, picks, 1),
        probabilities=p if known == "all" else None,
    )
    table = evaluate(log, "uniform", train=0)
    own = table[table["policy"] == "uniform"]
    estimators = own.groupby("measure")["estimator"].agg(set)
    assert "ips" not in estimators["reward"]
    if known == "all":
        assert {"ips", "snips", "dr"} <= estimators["reward:a"] & estimators["reward:b"]
        assert estimators["reward:c"] == estimators["reward_gap"] == {"direct"}
        assert "win:a" in estimators
    assert "win:c" not in estimators
    note = " ".join(table.attrs["notes"])
    assert "are refused for some groups: c, " in note or known == "picks"


def test_chance_alone_refuses_no_group():
    """Where only propensities of picks are known, some group has too little weight by chance."""
    log = random_log(400, probabilities=None)
    groups = Sums.of(log, target(log), np.zeros(len(log.decisions))).groups
    assert any(own.picked.mean[1] < own.picked.mean[3] for own in groups.values())
    assert {own.unseen for own in groups.values()} == {""}


def test_a_group_that_the_policy_never_picks_has_no_rewards():
    log = random_log(50)
    chances, groups = log.padded(target(log), 0.0), log.padded(log.groups, -1)
    groups[:, 0] = groups[:, 0].clip(max=1)  # the first is of another group
    chances[groups == 2] = 0
    chances[:, 0] += 1 - chances.sum(1)
    chances, log = chances[groups >= 0], random_log(50, groups=groups)
    sums = Sums.of(log, chances, np.zeros(len(chances)))
    values = direct_values(log, [chances], 0, 5)[:, :, 0]
    rows = [*sums.estimates((-9, 9)), *direct_estimates(values, log, sums, (-9, 9))]
    found = {measure: value for measure, _, value in rows}
    assert {"reward:c", "rank:c", "win:c"}.isdisjoint(found)
    assert found["share:c"].value == found["selection_ratio"].value == 0
    assert "reward_gap" in found


def test_people_who_do_not_say_are_shown_and_not_compared():
    """Their selection rate and their rewards are the highest."""
    log = random_log(300)
    unsaid = log.groups == 2
    log = replace(log, labels=("a", "b", "unknown"), rewards=log.rewards + 9 * log.at_picks(unsaid))
    table = evaluate(log, "uniform")
    ranks = table[table["measure"].str.match("rank:|win")]
    assert ((ranks["low"] >= 0) & (ranks["high"] <= 1)).all()
    own = table[table["policy"] == "logged"].set_index("measure")["value"]
    rates = [log.picked[log.groups == g].mean() for g in range(3)]
    assert own["selection:unknown"] == pytest.approx(rates[2])
    assert own["selection_ratio"] == pytest.approx(min(rates[:2]) / max(rates[:2]))
    means = table[table["policy"] == "logged"].pivot(index="measure", columns="estimator")["value"]
    gaps = (means.loc["reward:a"] - means.loc["reward:b"]).abs()
    assert means.loc["reward_gap"].dropna().to_dict() == pytest.approx(gaps.dropna().to_dict())
    note = f"logged: {100 * rates[2]:.1f} % of the {unsaid.sum():,} people whose group is unknown"
    assert any(text.startswith(note) for text in table.attrs["notes"])


@pytest.mark.parametrize(
    ("measure", "estimates", "marked"),
    [
        # a wide interval says nothing, so that it does not win, whatever its value
        ("reward_gap", [(44, 0, 3_112), (100, 90, 110), (200, 190, 210)], "b"),
        ("reward", [(44, 0, 3_112), (30, 20, 40), (10, 5, 15)], "b"),
        # all that cannot be told from the best, even where they overlap the worst one, too
        ("reward", [(3.5, 3, 4), (2.5, 1.5, 3.5), (1, 0.5, 1.5)], "ab"),
        ("fair_regret", [(1, 0.5, 1.5), (3, 2.5, 3.5), (1.2, 0.7, 1.7)], "ac"),
        ("reward", [(9, -math.inf, math.inf), (2, 1.5, 2.5), (1, 0.5, 1.4)], "b"),
        ("reward", [(9, math.nan, math.nan), (2, 1.5, 2.5), (1, 0.5, 1.4)], "b"),
        ("reward", [(3, 1, 5), (2, 1, 3), (1, 0, 2)], ""),
    ],
)
def test_the_best_are_those_that_the_estimates_show_to_be_better(measure, estimates, marked):
    rows = pd.DataFrame(estimates, columns=["value", "low", "high"], index=[*"abc"])
    assert best_of(rows, measure) == [*marked]


ROWS = [
    *(("a", "reward", "dr", 1.0, 3.0), ("a", "selection_ratio", "exact", 0.7, 1.0)),
    *(("b", "reward", "dr", 0.5, 9.0), ("b", "selection_ratio", "exact", 0.85, 0.9)),
    *(("c", "reward", "dr", 0.2, 0.3), ("c", "selection_ratio", "exact", 0.95, 1.0)),
    *(("b", "reward:x <=y", "ips", 0.1, 0.2), ("c", "reward:x <=y", "ips", 0.3, 0.4)),
]


@pytest.mark.parametrize(
    ("limits", "right", "tied"),
    [
        (None, "a", "a ties with b:"),
        ("selection_ratio>=0.7", "a", "a ties with b:"),
        (" selection_ratio >= 0.8 ", "b", ""),
        (["selection_ratio>=0.8", "reward<=1"], "c", ""),
        ("reward:x <=y<=0.2", "b", ""),  # a, which has no estimate, is not within the limit
        ("selection_ratio>=2", None, ""),
    ],
)
def test_limits_leave_policies_whose_intervals_are_within(limits, right, tied):
    table = pd.DataFrame(ROWS, columns=["policy", "measure", "estimator", "low", "high"])
    best, notes = chosen(table.assign(value=table["low"]), "reward", limits)
    assert best == right
    assert [tied in note for note in notes[limits is not None :]] == [True] * bool(tied)
    if right == "c":
        assert notes == [
            "chosen c: the largest lower end of reward among the policies within "
            "selection_ratio>=0.8 and reward<=1; not within: a with selection_ratio 0.7 [0.7, 1], "
            "b with reward 0.5 [0.5, 9]"
        ]


def test_limits_that_cannot_be_read():
    table = pd.DataFrame(ROWS, columns=["policy", "measure", "estimator", "low", "high"])
    limits: Any
    for limits in ("reward", "reward>1", "reward>=x", ">=1", 3, [None]):
        with pytest.raises(FairbanditError, match=r"limits: expected.*> need quotes"):
            chosen(table, "reward", limits)

"""Weighted estimates against plain sums, obp, a double sum and a jackknife."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import t

from fairbandit import FairbanditError
from fairbandit.evaluation.betting import BETS, CENTRES, lower_end, weighted_picks
from fairbandit.evaluation.direct import RewardFit
from fairbandit.evaluation.sums import Sums, weighted_rewards, wins
from fairbandit.evaluation.whole import table_of
from fairbandit.logs import Log
from tests.evaluation.logs import random_log, rows, target


def parts(n: int, seed: int = 0) -> Any:
    """A log, probabilities and model scores, (R,), and the weights and rewards of picks."""
    log = random_log(n, seed)
    chances, model = target(log), RewardFit(random_log(200, 99))
    scores = model.scores(log.contexts)
    return log, chances, scores, weighted_picks(log, chances)[1:]


def test_ips_and_dr_are_unbiased_and_ratios_are_not():
    """By all 256 logs of eight decisions of two candidates, each with its probability."""
    n, draw = 8, np.random.default_rng(0)
    reward = np.sort(draw.normal(size=(n, 2)), axis=1)[:, ::-1]  # of every candidate
    p, pi = np.tile([0.2, 0.8], (n, 1)), np.tile([0.7, 0.3], (n, 1))
    alike: dict[str, Any] = {"groups": np.zeros((n, 2), int), "labels": ("a",), "names": range(n)}
    contexts, scores = draw.normal(size=(n, 2, 1)), draw.normal(size=2 * n)
    expected = dict.fromkeys(("ips", "dr", "snips", "win"), 0.0)
    for picks in np.ndindex(*[2] * n):
        of = np.array(picks)[:, None]
        drawn: dict[str, Any] = {"picks": of, "rewards": np.take_along_axis(reward, of, 1)}
        drawn["propensities"] = np.take_along_axis(p, of, 1)
        log = Log(**rows(**alike, **drawn, contexts=contexts, probabilities=p, features=("x",)))
        sums, share = Sums.of(log, pi.ravel(), scores), drawn["propensities"].prod()
        wr, w, robust, *_ = sums.picked.mean
        found = {"ips": wr, "dr": robust, "snips": wr / w}
        found["win"] = wins(log, pi.ravel())[0].value
        expected = {name: expected[name] + share * found[name] for name in expected}
    truth = float((pi * reward).sum(1).mean())
    assert expected["ips"] == pytest.approx(truth, abs=1e-12)
    assert expected["dr"] == pytest.approx(truth, abs=1e-12)
    assert expected["snips"] < truth - 0.03
    won = [
        pi[i, a] * (reward[i, a] > reward[j, b])
        for i in range(n)
        for j in range(n)
        for a in range(2)
        for b in range(2)
        if i != j
    ]
    assert abs(expected["win"] - sum(won) / (2 * n * (n - 1))) > 1e-4


def double_sum(w: Any, r: Any, reference: Any, g: Any) -> float:
    """The O(n²) form of `win`."""
    pairs = w[:, None] * reference * (g[:, None] == g) * ~np.eye(len(w), dtype=bool)
    above = pairs * ((r[:, None] > r) + (r[:, None] == r) / 2)
    value = 0.0
    for group in set(g):
        here = g == group
        weight = pairs[here].sum()
        value += w[here].sum() * (above[here].sum() / weight if weight else 0.5)
    return value / float(w.sum())


def test_win_is_the_double_sum_with_ties_and_its_influence_a_jackknife():
    log, chances, *_ = parts(300)
    log = replace(log, rewards=log.rewards.round(0), labels=(*log.labels, "d"))  # many ties
    log.groups[log.picks[0, 0]] = 3  # alone in its group
    (found, groups), (_, *picked) = wins(log, chances), weighted_picks(log, chances)
    columns = [part[:, 0] for part in picked]
    assert found.value == pytest.approx(double_sum(*columns), abs=1e-12)
    without = [double_sum(*(np.delete(part, i) for part in columns)) for i in range(300)]
    spread = math.sqrt(((np.array(without) - np.mean(without)) ** 2).sum())
    ess = columns[0].sum() ** 2 / (columns[0] ** 2).sum()
    assert found.ess == pytest.approx(ess)
    half = t.ppf(0.975, ess - 4) * math.sqrt((ess - 1) / (ess - 4)) * spread  # of 4 groups
    low, high = found.ends(0.95)
    assert (high - low) / 2 == pytest.approx(half, rel=0.03)
    own = [part[columns[3] == 1] for part in columns]  # alone, a group is a log
    assert groups["b"].value == pytest.approx(double_sum(*own), abs=1e-12)
    without = [double_sum(*(np.delete(part, i) for part in own)) for i in range(len(own[0]))]
    spread = math.sqrt(((np.array(without) - np.mean(without)) ** 2).sum())
    low, high = groups["b"].ends(0.95)
    assert (high - low) / 2 == pytest.approx(t.ppf(0.975, groups["b"].ess - 1) * spread, rel=0.05)
    assert "d" not in groups


def test_the_lower_end_is_where_the_mean_wealth_is_the_limit():
    z = np.random.default_rng(0).random(200)
    low = lower_end(200, z.mean(), (z**2).mean(), 0.05)
    wealth = [
        math.exp(bet * (z - low).sum() + (math.log(1 - bet) + bet) * ((z - centre) ** 2).sum())
        for bet, centre in zip(BETS.ravel(), CENTRES.ravel(), strict=True)
    ]
    assert np.mean(wealth) == pytest.approx(1 / 0.05, rel=1e-4)


@pytest.mark.all
def test_an_anytime_interval_holds_at_all_times_at_once():
    """Of 200 streams with changing means, at level 0.9 and every 50 steps, those that are missed.

    At most 10 % are missed on average, so that more than 34 are by a chance of 0.0005; the
    intervals are far from so wide that none could be missed.
    """
    draw, missed, widths = np.random.default_rng(0), 0, []
    for _ in range(200):
        p = draw.choice([0.05, 0.2, 0.5], (1000, 1))
        mean = np.repeat([0.3, 0.8], 500)[:, None]
        picked = (draw.random((1000, 1)) < p).astype(float)
        r = (draw.random((1000, 1)) < mean).astype(float)
        changed: dict[str, Any] = {
            "rewards": r,
            "propensities": np.where(picked == 1, p, 1 - p),
            "picks": 1 - picked.astype(int),
            "probabilities": np.hstack([p, 1 - p]),
        }
        one = random_log(1000, k=2, **changed)
        inside = True
        for n in range(50, 1001, 50):
            sums = Sums.of(one[:n], np.tile([1.0, 0.0], n), np.zeros(2 * n))
            *_, (_, found) = weighted_rewards(sums.picked, n, (0.0, 1.0), (0.0, 1.0))
            low, high = found.ends(0.9)
            inside &= low <= mean[:n].mean() <= high
        missed += not inside
        widths.append(high - low)
    assert missed <= 34
    assert 0.2 < np.mean(widths) < 0.45


def test_an_anytime_interval_moves_with_the_units_of_rewards():
    log, chances, scores, _ = parts(200)
    r = np.clip(log.rewards, -2, 2)
    found = []
    for scale, shift in ((1.0, 0.0), (10.0, 3.0)):
        moved = random_log(200, rewards=r * scale + shift)
        limits = -2 * scale + shift, 2 * scale + shift
        sums = Sums.of(moved, chances, scores)
        *_, (_, one) = weighted_rewards(sums.picked, 200, limits, limits)
        found.append([(end - shift) / scale for end in one.ends(0.95)])
    assert found[0] == pytest.approx(found[1], abs=1e-9)
    assert found[0][0] < found[0][1]


def test_numbers_too_large_to_square_are_refused():
    log = random_log(5, propensities=np.full((5, 1), 1e-200))
    with pytest.raises(FairbanditError, match="too large to be squared"):
        Sums.of(log, target(log), np.zeros(len(log.decisions)))


WRONG: dict[str, Any] = {
    "one place off": lambda p, draw: np.roll(p, 1, 1),
    "of the next decision": lambda p, draw: np.roll(p, 1, 0),
    "shuffled": lambda p, draw: draw.permuted(p, axis=1),
    "twice": lambda p, draw: 2 * p,
}


def full(n: int, seed: int = 0, k: int = 4, epsilon: float = 0.4) -> Any:
    """A log of an epsilon-greedy rule over pools of one size."""
    draw = np.random.default_rng(seed)
    p = np.full((n, k), epsilon / k)
    p[np.arange(n), draw.integers(k, size=n)] += 1 - epsilon
    picks = (p.cumsum(1) > draw.random((n, 1))).argmax(1)[:, None]
    return random_log(
        n,
        seed,
        k=k,
        groups=np.zeros((n, k), dtype=int),
        contexts=draw.normal(size=(n, k, 3)),
        picks=picks,
        rewards=draw.normal(size=(n, 1)),
        probabilities=p,
        propensities=np.take_along_axis(p, picks, 1),
    )


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("known", ["all", "picks"])
def test_propensities_that_do_not_fit_are_refused(wrong, known):
    """For every policy, the one that logged included, which needs no weights to be judged."""
    log = full(800)
    p = WRONG[wrong](log.padded(log.probabilities, 0.0), np.random.default_rng(0))
    if known == "picks" and wrong == "twice":
        return  # a mean below 1 may be for want of support
    changed = replace(
        log,
        propensities=np.take_along_axis(p, log.picks, 1),
        probabilities=p.ravel() if known == "all" else None,
    )
    for chances in (np.full(p.size, 0.25), log.probabilities, target(log)):
        refusal = Sums.of(changed, chances, np.zeros(p.size)).refusal
        assert "over the picks from pools of K is" in refusal


@pytest.mark.parametrize("epsilon", [0.04, 0.4, 1.0])
def test_right_propensities_are_not(epsilon):
    """A sound log is refused with a probability of 2e-4 at most, and so two of 99 with 2e-4.

    Where only the propensities of picks are known, the test is for logs that explore enough.
    """
    refused = 0
    for seed in range(99):
        log, decimals = full(30 if seed % 2 else 300, seed, epsilon=epsilon), (2, 3, 17)[seed % 3]
        p = log.probabilities.round(decimals) if seed % 4 or epsilon < 0.1 else None
        log = replace(log, propensities=log.propensities.round(decimals), probabilities=p)
        refused += bool(Sums.of(log, target(log), np.zeros(len(log.decisions))).refusal)
    assert refused <= 1


def test_ends_of_an_interval_that_cross_refute_its_assumptions():
    log = full(500, epsilon=1.0)
    sums = Sums.of(log, log.probabilities, np.zeros(len(log.decisions)))
    picked = sums.picked._replace(mean=np.array([0.99, 1.99, 0.5, 1.0, 4.0]))
    wrong = {"one": sums._replace(picked=picked)}
    table = table_of(wrong, {"one": [*wrong["one"].estimates((-9, 9), (-9, 9))]}, 0.95)
    assert "anytime" not in set(table[table["measure"] == "reward"]["estimator"])
    assert "one: anytime is refused: the ends of its interval cross" in table.attrs["notes"][0]

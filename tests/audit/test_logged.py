"""The audit of logs: exact tables, tests that keep their level, and reports."""

from dataclasses import replace
from functools import partial
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairbandit import Agent, Encoder
from fairbandit.audit import audit
from fairbandit.audit.processes import (
    BETS,
    FIRST_FREEZES,
    arrival,
    disparity,
    drift,
    sequential_ranks,
    wealth,
)
from fairbandit.audit.rates import selection_rate
from fairbandit.errors import FairbanditError
from fairbandit.logs import read_log
from fairbandit.notices import noted
from fairbandit.report import of_log
from fairbandit.report.people import draw_rates
from tests import support
from tests.evaluation.logs import random_log, rows
from tests.figures.placing import check_texts
from tests.studies.drift import false_alarms

LEVEL = 0.05


def made(seed: int, n: int, places: int = 2, shift: float = 0.0, at: int = 0) -> Any:
    """Uniform picks; from decision `at` on, the scores of group 0 are higher by shift·σ."""
    draws = np.random.default_rng(seed)
    groups = np.tile(np.arange(places) % 2, (n, 1))
    contexts = draws.normal(size=(n, places, 2))
    contexts[at:, :, 0] += shift * (groups[at:] == 0)
    picks = draws.integers(places, size=(n, 1))
    parts: dict[str, Any] = {"groups": groups, "contexts": contexts, "probabilities": None}
    parts |= {"labels": ("a", "b"), "features": ("x0", "x1"), "picks": picks}
    rewards = contexts[np.arange(n)[:, None], picks, 0]
    return random_log(n, **parts, rewards=rewards, propensities=np.full((n, 1), 1 / places))


def alarm(log_wealth, level: float = LEVEL) -> int | None:
    """The first decision, from 1, after which the wealth is at least 1/level."""
    above = log_wealth >= np.log(1 / level)
    return int(above.argmax()) + 1 if above.any() else None


def test_the_wealth_against_drift_is_a_martingale():
    """Exactly: the mean over all orders of six values is 1 at every step."""
    wealths = []
    for order in permutations(range(6)):
        ranks = sequential_ranks(np.array(order, dtype=float), np.full(6, 0.5))
        wealths.append(np.exp(wealth(1 + np.outer(ranks - 0.5, BETS))))
    assert np.mean(wealths, axis=0) == pytest.approx(1, abs=1e-12)
    assert np.std(wealths, axis=0)[-1] > 0.1


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_the_wealth_against_parity_is_a_supermartingale(epsilon):
    """Exactly, over all outcomes of nine decisions between two, picked with chance 0.5 ± ε."""
    every = np.array(list(product([0, 1], repeat=9)))
    for chance in (0.5 - epsilon, 0.5, 0.5 + epsilon):
        probability = np.where(every == 0, chance, 1 - chance).prod(1)
        found = []
        for picks in every:
            log = replace(made(0, 9), picks=picks[:, None])
            found.append(np.exp(disparity(log, log.groups, log.labels, epsilon)[0]))
        mean = probability @ np.array(found)
        assert (mean <= 1 + 1e-12).all()
        assert epsilon or mean == pytest.approx(1, abs=1e-12)


def test_the_wealth_against_an_order_of_arrival_is_a_martingale():
    """Exactly, over all orders of the three candidates of a group in the last of the pools."""
    n, found = FIRST_FREEZES[0] + 2, []
    log = made(0, n, places=4)
    groups = np.tile([0, 0, 0, 1], (n, 1))
    for order in permutations(range(3)):
        contexts = log.padded(log.contexts, 0.0).copy()
        contexts[-1] = contexts[-1, [*order, 3]]
        rewards = log.at_picks(contexts.reshape(-1, 2))[..., 0]
        shuffled = replace(log, **rows(groups, contexts=contexts), rewards=rewards)
        found.append(np.exp(arrival(shuffled, groups.ravel(), log.labels)))
    mean = np.mean(found, axis=0)
    assert mean[:, -1] == pytest.approx(mean[:, -2], abs=1e-12)
    assert np.std(found, axis=0)[0, -1] > 0.01
    assert (np.array(found)[:, 1] == 1).all()  # group 1 is alone in each pool


@pytest.mark.parametrize("better_first", [False, True])
def test_an_order_by_quality_is_found(better_first):
    """Without it, the wealth reaches 20 in at most one of 20 logs; this one is not among them."""
    log = made(1, 500, places=6)
    x = log.padded(log.contexts, 0.0)
    noise = np.random.default_rng(0).normal(size=x.shape[:2])
    order = (noise - x[:, :, 0] * better_first).argsort(1)
    x = np.take_along_axis(x, order[..., None], 1)
    groups = np.take_along_axis(log.padded(log.groups, -1), order, 1)
    rewards = log.at_picks(x.reshape(-1, 2))[..., 0]
    given = replace(log, **rows(groups, contexts=x), rewards=rewards)
    table = audit(given, order=True).table
    assert (table["order_p"] <= LEVEL).all() == better_first
    assert (table["order_at"].isna() | (table["order_at"] > FIRST_FREEZES[0])).all()
    with pytest.raises(FairbanditError, match="needs contexts and rewards"):
        audit(replace(given, contexts=None), order=True)


def test_sequential_ranks_are_those_of_a_plain_loop():
    values = np.random.default_rng(0).integers(40, size=2500).astype(float)
    u = np.random.default_rng(1).random(2500)
    ranks = [
        ((values[:i] < values[i]).sum() + u[i] * ((values[:i] == values[i]).sum() + 1)) / (i + 1)
        for i in range(2500)
    ]
    np.testing.assert_allclose(sequential_ranks(values, u), ranks)


@pytest.mark.parametrize(
    ("name", "rho"),
    [("pools of 6, 2 groups", 0.5), ("of 12, 4 groups", 0.9), ("of 2, later of 12", 0.0)],
)
def test_pools_whose_candidates_are_alike_are_no_drift(name: str, rho: float) -> None:
    """At a level of 0.05, seven of 40 logs or more are rejected by a chance of 0.003."""
    assert false_alarms("drift", name, rho, 40) < 7 / 40


@pytest.mark.all
@pytest.mark.parametrize("rho", [0.0, 0.5])
def test_false_alarms_of_drift(rho: float) -> None:
    """600 logs of pools of many sizes; of a level of 0.07, at most 30 are by a chance of 0.03."""
    share = false_alarms("drift", "of 2 to 12", rho, 600)
    assert 0 < share <= 30 / 600


@pytest.mark.parametrize("at", support.some([500, 400, 600], 3))
def test_drift_is_seen(at):
    """0.7σ takes some 75 pools, even where one of both gamblers freezes at that moment."""
    delays = []
    for seed in range(40):
        log = made(seed, 1200, shift=0.7, at=at)
        found = alarm(drift(log, log.groups, log.labels)[0])
        delays.append(np.inf if found is None else found - at)
    assert 20 < np.median(delays) < 100
    assert np.mean(np.isinf(delays)) <= 0.1


def test_later_decisions_change_no_earlier_wealth():
    log = made(3, 900, 4, shift=1.0, at=450)
    whole, part = (drift(one, one.groups, one.labels) for one in (log, log[:700]))
    np.testing.assert_allclose(whole[:, :700], part, atol=1e-6)


def test_parity_at_the_boundary_and_beyond():
    """200 streams whose group is picked ε less than its share; at 0.05, 10 alarms are allowed."""

    def first_alarm(seed: int, chances: Any, epsilon: float = 0.05) -> int | None:
        draws, log = np.random.default_rng(seed), made(seed, len(chances))
        picks = draws.random((len(chances), 1)) < chances[:, None]
        log = replace(log, picks=picks.astype(int))
        return alarm(disparity(log, log.groups, log.labels[:1], epsilon)[0])

    found = [first_alarm(seed, np.full(500, 0.55)) for seed in range(200)]
    assert sum(at is not None for at in found) <= 10
    later = np.where(np.arange(6000) < 5000, 0.5, 0.8)  # after a long time without
    assert all(5000 < (first_alarm(seed, later) or 9999) < 5500 for seed in range(10))


def test_what_a_log_lacks_is_not_audited():
    log = made(0, FIRST_FREEZES[0] + 1)
    assert {*audit(log).table["measure"]} == {"selection"}
    scored = replace(log, scores=np.arange(len(log.groups), dtype=np.float64))
    assert {*audit(scored).table["measure"]} == {"selection", "scoring"}
    assert audit(replace(log, contexts=None), epsilon=0.1).wealth.keys() == {"parity"}
    assert not audit(replace(log, rewards=log.rewards * np.nan)).wealth
    with pytest.raises(FairbanditError, match="0 <= epsilon < 1"):
        audit(log, epsilon=-0.1)
    for judge in (audit, partial(Agent.from_log, "greedy")):
        with pytest.raises(FairbanditError, match="expected a Log, got a DataFrame; read_log"):
            judge(log.frame)


def test_intervals_by_decision_cover():
    """One of six is picked at random, in pools of one's own kind: 95 % of 600 intervals cover.

    At most 548 of 600 cover with probability 1e-4, if the coverage is 0.95.
    """
    covered = 0
    for seed in range(600):
        draws = np.random.default_rng(seed)
        received = draws.choice([0, 1, 5], size=120)  # of one group, in pools of six
        picked = (draws.random(120) < received / 6).astype(int)
        low, high = selection_rate(received, picked).ends(1 - LEVEL)
        covered += low <= 1 / 6 <= high
    assert 548 < covered < 595


def test_random_picks_are_seldom_unfair_to_a_group():
    """The largest of five equal rates is the reference: of 60 logs, 3 may miss some ratio."""
    missed, groups = 0, np.tile(np.arange(5), (200, 1))
    log = replace(made(0, 200, 5), groups=groups.ravel(), labels=tuple("abcde"), contexts=None)
    for seed in range(60):
        picks = np.random.default_rng(seed).integers(5, size=(200, 1))
        table = audit(replace(log, picks=picks)).table
        missed += bool(((table["ratio_low"] > 1) | (table["ratio_high"] < 1)).any())
    assert missed <= 8  # of Bin(60, 0.05), more has a probability below 0.005


@pytest.mark.parametrize(
    ("received", "selected", "right"),
    [
        ([1, 1, 1], [1, 1, 1], (0.025 ** (1 / 3), 1)),
        ([1, 0, 1, 1, 1, 1, 1], [0] * 7, (0, 1 - 0.025 ** (1 / 6))),
        ([2] * 4, [1] * 4, (0.5 * 0.025**0.25, 1 - 0.5 * 0.025**0.25)),
        ([3, 3], [3, 3], (0.025**0.5, 1)),
        ([4], [1], (0, 1)),
    ],
    ids=["all of three", "none of six", "one of two each time", "two shortlists", "one decision"],
)
def test_a_rate_is_uncertain_though_nothing_varied(received, selected, right):
    """A decision that n others all differ from has a probability of up to 1 − 0.025^(1/n)."""
    rate = selection_rate(np.array(received), np.array(selected))
    assert rate.ends(0.95) == pytest.approx(right)


def test_ratios_cover_where_all_of_a_small_group_were_picked():
    """Four candidates of a, each picked with probability 1/2: a true ratio of 2.5."""
    received, covered = np.arange(300) < 4, 0  # of a, in pools of six
    groups = (np.arange(6) >= received[:, None]).astype(np.int64)
    truth = 0.5 / ((296 + 4 * 0.5) / (300 * 6 - 4))
    for seed in range(40):
        draws = np.random.default_rng(seed)
        picks = draws.integers(received, 6)
        picks[:4] = np.where((draws.random(4) < 0.5) | (seed % 2 == 0), 0, picks[:4])
        log = replace(made(0, 300, 6), groups=groups.ravel(), contexts=None)
        row = audit(replace(log, picks=picks[:, None])).table.iloc[0]
        assert row["ratio_high"] - row["ratio_low"] > 1
        covered += row["ratio_low"] <= truth <= row["ratio_high"]
    assert covered > 37


def test_rows_say_what_is_compared_with_epsilon():
    log = replace(made(0, 400, 4), picks=np.where(np.arange(400) % 4 == 0, 0, 1)[:, None])
    table = audit(log, epsilon=0.1).table.set_index("group")
    assert table["share"].tolist() == [0.5, 0.5]
    assert table["picked_share"].tolist() == [0.25, 0.75]
    assert table["gap"].tolist() == [-0.25, 0.25]
    assert table["reference"].tolist() == ["b", "b"]
    row = table.loc["a"]
    assert row["impact_ratio"] == pytest.approx(1 / 3)
    assert row["ratio_low"] < row["impact_ratio"] < row["ratio_high"]


@pytest.mark.parametrize(("n", "tested"), [(FIRST_FREEZES[0], False), (FIRST_FREEZES[0] + 1, True)])
def test_drift_and_order_are_tested_once_a_model_is_frozen(n, tested):
    report = of_log(made(0, n), Path("log"), order=True)
    assert report.table is not None
    assert {"drift_p", "order_p"} <= {*report.table} or not tested
    few = f"Drift was not tested: {n} decisions, 101 are"
    assert any(few in str(part) for part in report.parts) != tested
    (_, *panels) = next(part for part in report.parts if hasattr(part, "axes")).axes
    assert len(panels) == 2 * tested


def test_the_log_of_an_agent_has_the_columns_of_its_encoder(tmp_path):
    draws, path = np.random.default_rng(0), tmp_path / "log.jsonl"
    rows = {
        "age": draws.normal(size=240),
        "sex": [*"fm"] * 120,
        "race": draws.choice([*"ABC"], 240),
    }
    table = pd.DataFrame({**rows, "pay": draws.normal(size=240), "pool": np.arange(240) // 4})
    encoder = Encoder.from_table(table, group=["sex", "race"], reward="pay", exclude=["pool"])
    agent = Agent.from_config("uniform", features=encoder, log=path)
    pools = [own for _, own in table.groupby("pool")]
    picks = [agent.act(own).candidate for own in pools[::2]]
    picks += [agent.act(own, own[["sex", "race"]]).candidate for own in pools[1::2]]
    places = zip([*pools[::2], *pools[1::2]], picks, strict=True)
    table["picked"] = table.index.isin([own.index[place] for own, place in places])
    table["sex × race"] = table["sex"] + " × " + table["race"]
    found = audit(read_log(path)).table
    assert [*found["attribute"].unique()] == ["sex", "race", "sex × race"]
    for attribute, own in found.set_index("group").groupby("attribute"):
        plain = table.groupby(attribute)["picked"].agg(["size", "sum"])
        assert own["received"].to_dict() == plain["size"].to_dict()
        assert own["selected"].to_dict() == plain["sum"].to_dict()
    agent.act(encoder.encode(pools[0]) * 0, ["f × A", "other", "m × A", "m × B"])
    assert [*read_log(path).attributes] == ["sex × race"]  # one label has no parts


def test_the_picture_has_room_for_long_names():
    audited = audit(made(0, 3000), epsilon=0.1, order=True)
    names = {"a": "American Indian or Alaska Native", "b": "LatinoNative"}
    longer = audited._replace(table=audited.table.replace({"group": names}))
    check_texts(draw_rates(*longer, 1 - LEVEL))


def test_people_who_do_not_say_are_never_the_reference():
    log = made(3, 400, 3)
    log = replace(
        log,
        groups=np.where(np.arange(1200) % 3 < 2, log.groups, 2),
        labels=("a", "b", "unknown"),
        picks=np.tile([[2], [2], [0], [1]], (100, 1)),
    )
    with noted() as notes:
        table = audit(log).table.set_index("group")
    assert table["rate"].tolist() == [0.25, 0.25, 0.5]
    assert table["impact_ratio"].tolist() == [1, 1, 2]
    assert "unknown" not in {*table["reference"]}
    note = "50.0 % of the 400 people whose group is unknown are picked, and 25.0 % of the others"
    assert notes == [f"group: {note}"]

"""Evaluations of whole logs: what is refused, who learns from what, agents, pieces, the command."""

import math
import re
import tracemalloc
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from fairbandit import Agent, FairbanditError
from fairbandit.audit import audit
from fairbandit.environments import Simulation
from fairbandit.evaluation import COLUMNS, evaluate
from fairbandit.evaluation import direct as direct_module
from fairbandit.evaluation.frozen import named as by_name
from fairbandit.evaluation.picture import draw_estimates
from fairbandit.figures.draw import save
from fairbandit.logs import read_log
from tests.evaluation.logs import THETA, random_log
from tests.evaluation.worlds import fresh, logged, truth
from tests.figures.placing import check_texts

WORLD = Simulation()

WEIGHTED = {"ips", "snips", "dr"}


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Few repetitions of the bootstrap."""
    monkeypatch.setattr(direct_module.direct_values, "__defaults__", (20,))


def rows(table: Any, policy: str, measure: str = "reward") -> Any:
    """The rows of a measure by estimator."""
    some = table[(table["policy"] == policy) & (table["measure"] == measure)]
    return some.set_index("estimator")


def test_a_table_of_all_measures():
    table = evaluate(random_log(400), ["fair_greedy", "uniform"], choose="reward")
    assert list(table.columns) == list(COLUMNS)
    assert list(dict.fromkeys(table["policy"])) == ["logged", "fair_greedy", "uniform"]
    one = table[table["policy"] == "fair_greedy"]
    assert list(dict.fromkeys(one["measure"])) == [
        *("reward", "rank", "fair_regret", "win", "selection_ratio", "reward_gap", "rank_gap"),
        *(
            f"{measure}:{label}"
            for measure in ("reward", "rank", "fair_regret", "win", "share", "selection")
            for label in "abc"
        ),
    ]
    assert set(rows(table, "uniform").index) == WEIGHTED | {"direct"}
    inside = (table["low"] <= table["value"]) & (table["value"] <= table["high"])
    assert inside.all()
    assert table.attrs["chosen"] == "fair_greedy"
    assert [one["unsupported"] for one in table.attrs["diagnostics"]] == [0.0] * 3
    assert set(table.attrs["assumptions"]) == {"ips, snips, dr, win", "direct", "exact"}
    sizes = random_log(400).sizes
    best = f"independent candidates would give {(sizes / (sizes + 1)).mean():.4f}"
    assert any(best in note for note in table.attrs["notes"])
    pd.testing.assert_frame_equal(table, evaluate(random_log(400), ["fair_greedy", "uniform"]))


@pytest.mark.parametrize("unknown", [{}, {"propensities": np.full((400, 1), math.nan)}])
def test_the_logged_policy_has_means_of_the_log_and_is_never_chosen(unknown):
    log = logged("ε-greedy", WORLD, 400)
    log.rewards[::5] = math.nan
    if unknown:
        log = replace(log, probabilities=None, **unknown)
    options: dict[str, Any] = {"train": 0, "confidence": 0.9, "choose": "reward"}
    table = evaluate(log, "uniform", **options)
    frame = log.frame
    picks, known = frame[frame["picked"]], frame["reward"].dropna()
    half = student.ppf(0.95, len(known) - 1) * known.sem()
    for estimator in WEIGHTED:
        row = rows(table, "logged").loc[estimator]
        assert (row.value, row.n) == (pytest.approx(known.mean()), 320)
        assert half <= row.value - row.low < 1.1 * half
        assert half <= row.high - row.value < 1.1 * half
    means = {
        ("reward", "dr"): picks.groupby("group")["reward"].mean(),
        ("selection", "exact"): frame.groupby("group")["picked"].mean(),
        ("share", "exact"): picks["group"].value_counts(normalize=True),
    }
    for (measure, estimator), mean in means.items():
        for label, value in mean.items():
            row = rows(table, "logged", f"{measure}:{label}").loc[estimator]
            assert row.low < row.value < row.high
            assert row.value == pytest.approx(value)
    assert rows(table, "logged").low["direct"] > rows(table, "uniform").high["direct"]
    assert table.attrs["chosen"] == "uniform"


def test_estimates_come_near_the_truth_of_the_frozen_policy():
    """Each is within six standard errors, so that one is not by a chance of some 1e-8."""
    log = logged("uniform", WORLD, 1_500, 3)
    agent = Agent.from_log("fair_greedy", log[:500], seed=0)
    right = truth(agent, WORLD, fresh(WORLD, 1, 3_000, 15_000)[0])
    table = evaluate(log[500:], agent, train=0)
    for measure, value in right.items():
        for name, row in rows(table, "agent", measure).iterrows():
            slack = 6 * (row.high - row.low) / 2 / 1.96 + 0.02
            assert abs(row.value - value) < slack, (measure, name)
    assert right["rank"] > 0.7


def test_policies_learn_forward_from_adaptive_logs_and_for_anytime():
    """Rewards of the last part change nothing that earlier parts gave."""
    log = random_log(300, adaptive=True)
    changed = log.rewards.copy()
    changed[225:] = -changed[225:]
    other = random_log(300, adaptive=True, rewards=changed)
    given: tuple[dict[str, Any], ...] = ({}, {"adaptive": False, "anytime": True})
    for options in given:
        options |= {"reward_range": (-99, 99)} if options else {}
        found = [evaluate(one, "fair_greedy", **options) for one in (log, other)]
        selected = [one[one["estimator"] == "exact"] for one in found]
        pd.testing.assert_frame_equal(*selected)
        assert "policies were trained forward in time" in found[0].attrs["notes"]
        assert rows(found[0], "fair_greedy")["n"].max() == 150
    dealt = [evaluate(one, "fair_greedy", adaptive=False) for one in (log, other)]
    assert not dealt[0].equals(dealt[1])


@pytest.mark.parametrize(
    ("options", "noted"),
    [
        ({"folds": 1}, True),
        ({"folds": 2}, False),
        ({"adaptive": True}, True),
        ({"train": 0.25, "folds": 3, "adaptive": True}, True),
    ],
)
def test_dr_without_a_model_is_noted(options, noted):
    """Where no reward trains its model; in the last case, the first 150 rewards are missing."""
    log = random_log(300)
    if options.get("train"):
        log = replace(log, rewards=np.where(np.arange(300)[:, None] < 150, np.nan, log.rewards))
    notes = evaluate(log, "uniform", **{"train": 0, **options}).attrs["notes"]
    assert any("dr equals ips" in note for note in notes) == noted


def test_looks_at_a_growing_log_are_of_one_martingale():
    """With an agent and train=0, each look adds the new decisions to all earlier ones."""
    log = random_log(300)
    options: dict[str, Any] = {"train": 0, "anytime": True, "reward_range": (-99, 99)}
    agent = Agent.from_config("fair_greedy", features=len(log.features), groups=log.labels, seed=0)
    looks = [evaluate(one, agent, **options) for one in (log[:100], log[100:], log)]
    first, new, both = (rows(look, "agent").loc["anytime"] for look in looks)
    assert (first.n, both.n) == (100, 300)
    assert both.value == pytest.approx((100 * first.value + 200 * new.value) / 300)


CHANCES = random_log(400).propensities

REFUSED: list[tuple[str, float, dict[str, Any]]] = [
    ("75.0% of its probability lacks support", 0.75, {}),
    ("conditional on a draw of the model", 0, {"draws_models": True}),
    ("lacks propensities", math.nan, {"probabilities": None, "propensities": CHANCES * math.nan}),
    ("mean weight is 0.", math.nan, {"probabilities": None, "propensities": np.sqrt(CHANCES)}),
]
"""Why weighted estimates are refused, the share without support, and what such logs differ in."""


@pytest.mark.parametrize(("reason", "share", "changed"), REFUSED)
def test_weighted_estimates_are_refused_with_the_reason_and_a_remedy(reason, share, changed):
    log = random_log(400, **changed) if changed else logged("argmax", WORLD, 120)
    table = evaluate(log, "uniform", train=0)
    table = table[table["policy"] == "uniform"]
    assert set(table["estimator"]) == {"direct", "exact"}
    assert list(table["measure"][:3]) == ["reward", "rank", "fair_regret"]
    assert "ips, snips, dr, win" not in table.attrs["assumptions"]
    (note,) = [note for note in table.attrs["notes"] if reason in note]
    assert "epsilon_greedy" in note
    lacking = table.attrs["diagnostics"][1]["unsupported"]
    assert lacking == pytest.approx(share, nan_ok=True)


def test_win_needs_support_for_all_candidates():
    """A policy that never picks what the log never picks has weighted rewards, but no win."""
    log = random_log(100)
    chances = log.padded(np.zeros(len(log.groups)), 0.0)
    chances[:, :2] = 0.5
    picks = np.arange(100)[:, None] % 2
    rewards = np.take_along_axis(log.padded(log.contexts, 0.0) @ THETA, picks, 1)
    p = np.full((100, 1), 0.5)
    some = random_log(100, probabilities=chances, picks=picks, rewards=rewards, propensities=p)
    agent = Agent.from_config("uniform", features=3)
    with patch.object(agent, "probabilities", lambda x, groups, *_: chances[: len(groups)]):
        table = evaluate(some, agent, train=0)
    assert set(rows(table, "agent").index) == WEIGHTED | {"direct"}
    assert rows(table, "agent", "win").empty
    assert "win is refused" in " ".join(table.attrs["notes"])


def test_missing_rewards_are_left_out_and_their_share_is_a_note():
    log = random_log(200)
    gone = np.where(np.arange(200)[:, None] % 4 == 0, math.nan, log.rewards)
    some = random_log(200, rewards=gone)
    table = evaluate(some, "uniform", train=0)
    kept = evaluate(log[~np.isnan(gone[:, 0])], "uniform", train=0)
    for name in ("ips", "snips"):
        assert rows(table, "uniform").value[name] == pytest.approx(
            rows(kept, "uniform").value[name]
        )
    assert rows(table, "uniform").n["ips"] == 150
    notes = " ".join(table.attrs["notes"])
    assert "25.0% of the rewards are missing" in notes
    assert "right only if they are missing completely at random" in notes


def test_a_group_that_was_never_picked_makes_direct_a_guess():
    log = random_log(150)
    contexts = np.hstack([log.contexts, log.groups[:, None] == [0, 1, 2]])
    never = np.where(log.at_picks(log.groups) == 2, math.nan, log.rewards)
    for rewards, guess in ((log.rewards, False), (never, True)):
        some = random_log(150, contexts=contexts, rewards=rewards, features=tuple("abcdef"))
        notes = " ".join(evaluate(some, "uniform").attrs["notes"])
        where = "direct is a guess: in part [12] of 2 of the decisions that judge, all picks with "
        what = "a reward are equal in 1 dimensions of the contexts, such as 'f'"
        found = re.search(where + what, notes)
        assert (found is not None) == guess


def test_memory_grows_with_the_rows_and_not_with_the_largest_pool():
    """With a pool of 800 among 200 of 4, padded contexts alone would take 5 MB."""

    def peaks(largest: int) -> list[int]:
        sizes, draw = np.where(np.arange(200) == 120, largest, 4), np.random.default_rng(0)
        starts = sizes.cumsum() - sizes
        frame = pd.DataFrame(draw.normal(size=(sizes.sum(), 4)), columns=[*"wxyz"])
        pools = np.split(frame.to_numpy(), starts[1:])
        frame["decision"] = np.repeat(np.arange(200), sizes)
        frame["group"] = np.where(frame["w"] > 0, "a", "b")
        frame["picked"] = ~frame["decision"].duplicated()
        frame["reward"] = frame["x"].where(frame["picked"])
        labels = np.split(frame["group"], starts[1:])
        agent, found = Agent.from_config("fair_greedy", features=4), list[int]()
        log = read_log(frame, propensity=None)
        for call in (
            lambda: read_log(frame, propensity=None),
            lambda: evaluate(log, "fair_greedy"),
            lambda: Agent.from_log("fair_greedy", log),
            lambda: audit(log[50:]),
            lambda: agent.observe(pools, labels, [0] * 200, frame["x"][starts]),
        ):
            tracemalloc.start()
            call()
            found.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        return found

    peaks(4)  # loads modules
    assert all(large < 6 * even for even, large in zip(peaks(4), peaks(800), strict=True))


def test_a_policy_that_reads_picks_learns_them_from_a_log():
    """As from the same rounds, observed; the log has picks of all three groups."""
    log = random_log(60)
    agents = [Agent.from_log("minimum_pull", log, seed=0)]
    agents.append(Agent.from_config("minimum_pull", features=log.features, groups=log.labels))
    pools = np.split(log.contexts, log.starts[1:])
    groups = [[log.labels[g] for g in own] for own in np.split(log.groups, log.starts[1:])]
    agents[1].observe(pools, groups, log.picks[:, 0], log.rewards[:, 0])
    x, codes = log.padded(log.contexts, 0.0), log.padded(log.groups, -1)
    one, other = (agent.probabilities(x, codes, log.labels) for agent in agents)
    assert np.array_equal(one, other)
    assert {"minimum_pull"} < set(evaluate(log, "minimum_pull")["policy"])


def test_a_saved_agent_is_a_policy(tmp_path):
    log = random_log(200)
    agent = Agent.from_log("fair_greedy", log[:100], seed=0)
    agent.save(tmp_path / "agent.pt")
    policies = [tmp_path / "agent.pt", agent, {"name": "uniform"}, "uniform"]
    table = evaluate(log[100:], policies, train=0)
    names = ["logged", "agent.pt", "agent", "uniform", "uniform-2"]
    assert list(dict.fromkeys(table["policy"])) == names
    values = [rows(table, name).value.tolist() for name in ("agent.pt", "agent")]
    assert values[0] == values[1]
    table = evaluate(log[100:], {"old": agent, "logged": "uniform"}, train=0)
    assert list(dict.fromkeys(table["policy"])) == ["logged", "old", "logged-2"]


@pytest.mark.parametrize(
    ("changed", "options", "message"),
    [
        ({}, {"anytime": True}, "needs reward_range"),
        ({}, {"anytime": True, "reward_range": (0, 1)}, "the log has rewards from"),
        ({}, {"train": 0}, "leaves nothing to learn from"),
        ({}, {"choose": "joy"}, "expected one of reward, rank"),
        ({"contexts": None}, {}, "leaves out the contexts"),
        ({"rewards": np.full((40, 1), math.nan)}, {}, "has a reward"),
    ],
)
def test_what_is_refused(changed, options, message):
    log = random_log(40, **changed)
    with pytest.raises(FairbanditError, match=message):
        evaluate(log, options.pop("policies", "fair_greedy"), **options)


def test_the_picture(tmp_path):
    table = evaluate(random_log(100), ["fair_greedy", "uniform"])
    names = {":a$": ":American Indian or Alaska Native", ":b$": ":LatinoNative"}
    picture = draw_estimates(table.replace({"measure": names}, regex=True))
    check_texts(picture)
    assert picture.axes[0].get_xlabel() == "mean reward (dr) →"
    assert all(path.stat().st_size > 5_000 for path in save(picture, tmp_path, "it"))


def test_parts_that_are_not_of_the_named_policy_are_in_the_name():
    config = {"name": "fair_greedy", "selector": {"name": "epsilon_greedy", "epsilon": 0.5}}
    name = "fair_greedy, selector=epsilon_greedy, epsilon=0.5"
    assert list(by_name([config, config, "greedy"])) == [name, f"{name}-2", "greedy"]


@pytest.mark.parametrize("value", [0.0, 1.0, -7.5])
def test_equal_rewards_have_no_finite_interval_without_their_range(value):
    log = random_log(120, rewards=np.full((120, 1), value))
    limits = f"reward_gap<={abs(value) + 1}"
    table = evaluate(log, "uniform", train=0, choose="reward", limits=limits)
    own = table[table["measure"].str.startswith("reward") & (table["estimator"] != "exact")]
    assert np.isinf(own["high"]).all()
    assert table.attrs["chosen"] is None
    assert any(f"all known rewards are {value:g}" in note for note in table.attrs["notes"])
    span = (value - 1, value + 1)
    table = evaluate(log, "uniform", train=0, choose="reward", reward_range=span)
    row = rows(table, "logged").loc["snips"]
    q = 1 - 0.025 ** (1 / 120)
    assert (row.low, row.high) == pytest.approx((value - q, value + q))
    assert table.attrs["chosen"] == "uniform"


def test_rates_of_picks_are_those_of_the_audit():
    """Of the same decisions, though not all have candidates of each group."""
    log = random_log(60)
    log = replace(log, groups=np.where(log.decisions % 9 > 0, log.groups.clip(max=1), log.groups))
    table = rows(evaluate(log, "uniform", train=0), "logged", "selection:c")
    (audited,) = audit(log).table.query("group == 'c'").to_dict("records")
    ends = [audited[name] for name in ("rate", "low", "high")]
    assert table.loc["exact", ["value", "low", "high"]].tolist() == pytest.approx(ends)

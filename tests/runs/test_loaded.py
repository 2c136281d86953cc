"""Tables of saved runs in pandas say what the runs' files say."""

from pathlib import Path

import numpy as np
import pytest

import fairbandit
from fairbandit import FairbanditError
from fairbandit.runs import pool
from fairbandit.runs.overview import overview
from tests.environments.data import arguments, people, write
from tests.figures.conftest import sweep


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three policies in two environments under two seeds; uniform has fewer replicas."""
    folder: Path = tmp_path_factory.mktemp("loaded")
    for seed in range(2):
        for noise in (1.0, 2.0):
            world = {"name": "simulation", "noise": noise}
            place = folder / f"{noise:g}" / str(seed)
            sweep(place, world, ["greedy", "fair_greedy"], seed=seed, rounds=60)
            sweep(place, world, ["uniform"], seed=seed, rounds=60, replicas=2)
    return folder


@pytest.fixture(scope="module")
def runs(folder):
    return fairbandit.load(folder)


def test_runs_are_a_sequence_and_the_table_has_a_row_each(runs):
    assert len(runs) == 12
    assert runs[0].summary["policy"] == "fair_greedy"
    assert len(runs[3:5]) == 2
    assert repr(runs) == "<12 runs; they differ in policy, seed, noise>"
    assert len(runs.table) == 12
    row = runs.table.set_index("folder").loc["2/1/greedy"]
    assert (row.policy, row.seed, row["environment.noise"]) == ("greedy", 1, 2.0)
    summary = next(run.summary for run in runs if run.place == "2/1/greedy")
    assert row.fair_regret_mean == summary["metrics"]["fair_regret"]["mean"]


def test_pooled_curves_end_in_the_pooled_table(runs):
    pooled = runs.pooled()
    assert len(pooled) == 6
    assert (pooled.runs == 2).all()
    assert sorted(pooled.fair_regret_n) == [4, 4, 6, 6, 6, 6]
    curves = runs.curves("fair_regret")
    assert len(curves) == 6 * 60
    ends = curves[curves["round"] == 60].merge(
        pooled, on=["label", "policy", "environment.noise"], validate="one_to_one"
    )
    for part in ("mean", "std", "n", "low", "high"):
        np.testing.assert_allclose(ends[part], ends[f"fair_regret_{part}"], rtol=1e-9)


def test_no_two_settings_share_a_label(runs, tmp_path):
    """Over keys of an environment, over environments, and over both and a key of the policy."""
    labels = runs.curves("fair_regret").groupby("label").round.count()
    assert labels.tolist() == [60] * 6
    assert {"Greedy, noise=1.0", "Uniform random, noise=2.0"} < {*labels.index}
    assert {*runs[:1].pooled()["label"]} == {"Fair-Greedy"}  # there is one environment
    for number, noise in enumerate((0.5, 1.0)):
        sweep(tmp_path / f"{number}", {"name": "simulation", "noise": noise}, ["greedy"], rounds=20)
    table = arguments(write(tmp_path / "people.csv", people()), pool="random", candidates=5)
    sweep(tmp_path / "table", table, ["greedy", "uniform"], rounds=20)
    several = fairbandit.load(tmp_path)
    assert sorted(several.pooled()["label"]) == [
        "Greedy, environment=simulation, noise=0.5",
        "Greedy, environment=simulation, noise=1.0",
        "Greedy, environment=table",
        "Uniform random, environment=table",
    ]
    curves = several.curves("fair_regret").groupby("label")
    assert all((curve["round"].diff().dropna() > 0).all() for _, curve in curves)


def test_single_rounds(runs):
    rounds = runs.rounds(["replica", "group", "fair_regret"])
    assert list(rounds) == ["replica", "group", "fair_regret", "folder"]
    assert len(rounds) == 4 * 60 * (3 + 3 + 2)
    assert list(rounds.group.cat.categories) == ["0", "1", "2", "3"]
    sums = rounds.groupby("folder").fair_regret.sum() / rounds.groupby("folder").replica.nunique()
    expected = runs.table.set_index("folder").fair_regret_mean
    np.testing.assert_allclose(sums[expected.index], expected, rtol=1e-12)
    assert "propensity" in runs[:1].rounds()


def test_comparisons_are_paired(runs):
    found = runs.compare("uniform").set_index(["policy", "environment.noise"])
    assert len(found) == 4
    rows = runs.rounds().merge(runs.table, on="folder")
    ends = rows.groupby(["policy", "environment.noise", "seed", "replica"]).fair_regret.sum()
    for (policy, noise), row in found.iterrows():
        differences = (ends[policy, noise] - ends["uniform", noise]).dropna()  # joins the pairs
        assert row.n == len(differences) == 4
        assert row["mean"] == pytest.approx(differences.mean(), rel=1e-9)
        assert row["std"] == pytest.approx(differences.std(), rel=1e-9)
        assert row.low < row["mean"] < row.high
        assert row.baseline == "Uniform random"
    same = runs.compare({"policy": "greedy", "policy.estimator.noise": 0.0})
    assert set(same.policy) == {"uniform", "fair_greedy"}


def test_all_that_is_pooled_can_be_compared(runs):
    rows, pooled = runs.rounds(["round", "group"]), runs.pooled(by="group")
    assert len(repr(runs[0]).splitlines()) == 10
    bounded = pooled.filter(regex="^(share|rank|selection_rate).*_(low|high)$")
    assert bounded.shape[1] >= 24
    assert not ((bounded < 0) | (bounded > 1)).any(axis=None)
    shares = (rows.group == "3").groupby(rows.folder).mean()
    for metric in ("share:3", "selection_rate_3"):  # equal, with one candidate of each group
        assert f"{metric}_mean" in pooled
        found = runs[:2].compare("greedy", metric)["mean"]
        assert found[0] == pytest.approx(shares["1/0/fair_greedy"] - shares["1/0/greedy"])


def test_the_cost_of_a_pick_is_in_the_unit_of_the_reward(mixed):
    table, deviation = fairbandit.load(mixed).pooled(), np.std(people()["wage"])
    expected = table.standard_regret_mean * deviation / 400
    np.testing.assert_allclose(table.cost_per_pick_mean, expected)
    found = fairbandit.load(mixed).compare("uniform", "cost_per_pick").set_index("policy")
    costs = table.set_index("policy").cost_per_pick_mean
    assert found["mean"]["greedy"] == pytest.approx(costs["greedy"] - costs["uniform"])
    for run in pool(fairbandit.load(mixed)):  # the groups' costs add up
        parts = [run.finals(f"share:{g}") * run.finals(f"cost_per_pick:{g}") for g in run.groups]
        np.testing.assert_allclose(np.nansum(parts, axis=0), run.finals("cost_per_pick"))
    headers = overview(pool(fairbandit.load(mixed)), groups=True).headers
    assert headers[2:4] == ["share", "reward (wage) ↑"]
    assert headers[-2:] == ["fair regret per pick ↓", "cost of a pick (wage) ↓"]
    runs = fairbandit.load(mixed)
    runs[0].summary["unit"].pop("mean")  # like a run of an earlier version
    headers = overview(pool(runs[:1]), groups=True).headers
    assert headers[2:4] == ["share", "reward (standardised wage) ↑"]
    both = overview(pool(runs), groups=True)
    assert both.headers[3:5] == ["reward (standardised wage) ↑", "reward (wage) ↑"]
    assert [row[4] for row in both.rows].count("–") == 3  # of the three groups of this run
    assert "cost per pick (wage) ↓" in repr(fairbandit.load(mixed)[0])


def test_runs_of_other_seeds_have_no_pairs(tmp_path):
    sweep(tmp_path / "a", {"name": "simulation"}, ["greedy"], rounds=20, seed=1)
    sweep(tmp_path / "b", {"name": "simulation"}, ["uniform"], rounds=20, seed=2)
    with pytest.raises(FairbanditError, match="'Greedy' and 'Uniform random' share no seed"):
        fairbandit.load(tmp_path / "a", tmp_path / "b").compare("uniform")
    with pytest.raises(FairbanditError, match="no run to compare with the baseline 'greedy'"):
        fairbandit.load(tmp_path / "a").compare("greedy")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            lambda runs: runs.curves("regret"),
            "unknown metric 'regret' .*; expected one of standard_r",
        ),
        (lambda runs: runs.rounds(["x"]), "it lacks the column 'x'"),
        (lambda runs: runs.compare("oful"), "'oful' names no setting of .* choose one of 'Unif"),
        (lambda runs: runs.compare({"rounds": 60}), "several settings of .* 'Greedy'"),
        (lambda _: fairbandit.load("nowhere"), "nowhere is not a folder"),
        (lambda _: fairbandit.load(), "load needs a folder"),
    ],
)
def test_wrong_questions(runs, wrong, message):
    with pytest.raises(FairbanditError, match=message):
        wrong(runs)

"""Tidy tables: what runs find, against plain loops over the rows of their round logs."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fairbandit
from fairbandit import FairbanditError, compare, load, pooled
from fairbandit.notices import noted
from fairbandit.runs import read_runs
from fairbandit.runs.scenes import pool
from fairbandit.runs.tables import tidy
from tests.environments.data import arguments, people, write
from tests.figures.conftest import sweep

STUDENT = {4: 3.182446, 6: 2.570582}
"""The 97.5 % quantiles of Student's t for n = 4 and 6 replicas, from a printed table."""


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
def table(folder):
    return load(folder)


def rows_of(folder: Path) -> pd.DataFrame:
    """The round logs of all runs below a folder, with policy, noise and seed of each."""
    found = []
    for run in read_runs([folder]):
        names = {key: run.settings[key] for key in ("policy", "seed", "environment.noise")}
        found.append(pd.read_parquet(run.folder / "rounds").assign(**names))  # type: ignore[operator]
    return pd.concat(found)


def test_a_group_of_the_table_needs_no_further_word(table, folder):
    keys = ["policy", "environment.noise", "seed", "replica"]
    assert {*keys, "environment", "rounds", "measure", "group", "value"} < {*table}
    assert not table.drop(columns="value").isna().any(axis=None)
    own = table[table.measure == "fair_regret"].groupby(keys, observed=True).value.sum()
    assert {*table[table.measure == "fair_regret"].group} == {"–"}
    sums = rows_of(folder).groupby(keys).fair_regret.sum()
    assert own.to_dict() == pytest.approx(sums.to_dict())
    rates = pooled(table).query("measure == 'selection_rate'")
    assert (rates["low"] >= 0).all()  # each replica may always pick one group
    assert (rates["low"] < rates["high"]).all()
    curves = load(folder, curves=True, where={"noise": [1.0]})
    ends = curves[(curves["round"] == 60) & (curves.measure == "fair_regret")]
    assert ends.value.sum() == pytest.approx(sums.xs(1.0, level="environment.noise").sum())


def test_runs_that_should_be_equal_and_are_not_are_noted(folder):
    run, again, other = (read_runs([folder])[0] for _ in range(3))
    vars(other)["finals"] = run.finals.assign(value=run.finals["value"] + 1)
    with noted() as notes:
        whole = tidy([run, again])
    assert not notes
    assert len(whole) == len(run.finals)
    with noted() as notes:
        pd.testing.assert_frame_equal(tidy([run, other]), whole)
    assert "but other results" in notes[0]


def test_no_two_settings_share_a_label(table, tmp_path):
    """Over keys of an environment, over environments, and over both and a key of the policy."""
    labels = pooled(table).groupby("label").size()
    assert len(labels) == 6
    assert {"Greedy, noise=1.0", "Uniform random, noise=2.0"} < {*labels.index}
    for number, noise in enumerate((0.5, 1.0)):
        sweep(tmp_path / f"{number}", {"name": "simulation", "noise": noise}, ["greedy"], rounds=20)
    world = arguments(write(tmp_path / "people.csv", people()), pool="random", candidates=5)
    sweep(tmp_path / "table", world, ["greedy", "uniform"], rounds=20)
    assert sorted(pooled(load(tmp_path))["label"].unique()) == [
        "Greedy, environment=simulation, noise=0.5",
        "Greedy, environment=simulation, noise=1.0",
        "Greedy, environment=table",
        "Uniform random, environment=table",
    ]


def test_comparisons_are_paired(table, folder):
    found = compare(table, "uniform")
    ends = rows_of(folder).groupby(["policy", "environment.noise", "seed", "replica"])
    ends = ends.fair_regret.sum()
    rows = found[found.measure == "fair_regret"]
    assert len(rows) == 4
    for _, row in rows.iterrows():
        policy, noise = row["policy"], row["environment.noise"]
        differences = (ends[policy, noise] - ends["uniform", noise]).dropna()  # joins the pairs
        n, mean, std = len(differences), differences.mean(), differences.std()
        half = STUDENT[n] * std / np.sqrt(n)
        assert row["n"] == n == 4
        parts = [row[part] for part in ("mean", "std", "low", "high")]
        assert parts == pytest.approx([mean, std, mean - half, mean + half], rel=1e-6)
        assert row["baseline"] == f"Uniform random, noise={noise}"
    same = compare(table, {"policy": "greedy", "policy.estimator.noise": 0.0})
    assert {*same.policy} == {"uniform", "fair_greedy"}


@pytest.mark.parametrize(("name", "picks"), [("simulation", 1), ("table", 2)])
def test_measures_of_groups_are_means_over_their_picks(tmp_path, name, picks):
    world: dict[str, Any] = {"name": name}
    if name == "table":
        world = arguments(write(tmp_path / "people.csv", people()), pool="random")
    sweep(tmp_path, world, ["uniform"], rounds=15, picks=picks)
    (run,) = read_runs([tmp_path])
    mean, std = np.mean(people()["wage"]), np.std(people()["wage"])
    finals = run.finals.set_index(["measure", "group", "replica"]).value
    assert run.folder is not None
    rows = pd.read_parquet(run.folder / "rounds")
    for (replica, code), _ in rows.groupby(["replica", "group"]):
        of, own = rows[rows.replica == replica], list[tuple[float, ...]]()
        for _, decision in of.groupby("round"):
            best = (decision.fair_regret.max() + decision["rank"].sum()) / picks
            most = (decision.standard_regret.max() + decision.expected_reward.sum()) / picks
            for row in decision[decision.group == code].itertuples():
                lost = most - row.expected_reward
                of_unit = mean + std * row.reward, std * lost
                own.append((row.reward, row.rank, best - row.rank, lost, *of_unit))
        names = ["reward", "rank", "fair_regret_of_pick", "standard_regret_of_pick"]
        names += ["raw_reward", "cost_of_pick"] * (name == "table")
        expected = dict(zip(names, np.mean(own, axis=0), strict=False))
        expected |= {"share": len(own) / len(of), "selected": len(own)}
        for measure, value in expected.items():
            assert finals[measure, run.groups[code], replica] == pytest.approx(value), measure


def test_runs_on_other_data_are_other_worlds(tmp_path):
    """The same path held two tables; nothing is pooled or subtracted across them."""
    for seed, scale in ((0, 1), (1, 1000)):
        table = people()
        write(tmp_path / "people.csv", {**table, "wage": [wage * scale for wage in table["wage"]]})
        world = arguments(tmp_path / "people.csv", pool="random")
        sweep(tmp_path / f"{seed}", world, ["fair_greedy"], rounds=20, seed=seed)
    sweep(tmp_path / "1", world, ["greedy"], rounds=20, seed=0)
    settings = pool(read_runs([tmp_path]))
    assert [run.replicas for run in settings] == [3, 3, 3]
    assert all("data=" in run.environment for run in settings)
    table = load(tmp_path)
    assert table["data"].nunique() == 2
    assert pooled(table)["n"].max() == 3
    with pytest.raises(FairbanditError, match="names no setting of an environment"):
        compare(table, "greedy")
    with pytest.raises(FairbanditError, match="no other run shares an environment with the same"):
        compare(table[table["data"] == table["data"].iloc[-1]], "greedy")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda table: compare(table, "oful"), "'oful' names no setting of .* choose one of 'Unif"),
        (lambda table: compare(table, {"rounds": 60}), "several settings of .* 'Fair-Greedy, no"),
        (lambda table: pooled(table, by=["nois"]), "unknown setting 'nois'"),
        (lambda table: pooled(table, by=["name"]), "'name' may be policy.split.name or pol"),
        (lambda _: load(), "load needs a folder"),
    ],
)
def test_wrong_questions(table, wrong, message):
    with pytest.raises(FairbanditError, match=message):
        wrong(table)


def test_a_sweep_gives_what_its_folders_hold(tmp_path):
    over: dict[str, Any] = {"policy": ["greedy"], "environment.noise": [0.5, 1.0]}
    config = {"rounds": 30, "replicas": 2}
    made = fairbandit.sweep(config, over, tmp_path, jobs=2)
    pd.testing.assert_frame_equal(made, load(tmp_path))
    pd.testing.assert_frame_equal(made, fairbandit.sweep(config, over))
    for wrong in list[Any](([], "greedy,uniform", 0.5)):
        with pytest.raises(FairbanditError, match="the values of 'policy' as a list"):
            fairbandit.sweep(config, {"policy": wrong})
    with pytest.raises(FairbanditError, match=r"unknown setting 'round' \(did you mean 'rounds'\?"):
        fairbandit.run({"policy": "greedy", "round": 3})


def test_a_run_is_described_by_a_mapping_a_file_or_a_name(tmp_path):
    (tmp_path / "run.yaml").write_text("policy: greedy\nrounds: 20\nenvironment.noise: 0.5\n")
    seen = list[Any]()

    class Watch(fairbandit.Callback):
        def on_start(self, settings):
            seen.append(settings["environment.noise"])

        def on_rounds(self, t, means):
            seen.append(t)

        def on_end(self, run):
            seen.append(run.finals)

    first = fairbandit.run(tmp_path / "run.yaml", tmp_path / "kept", callbacks=[Watch()])
    again = fairbandit.run(
        {"policy": "greedy", "rounds": 20, "environment": {"name": "simulation", "noise": 0.5}}
    )
    assert (first.folder, again.folder, seen[:-1]) == (tmp_path / "kept", None, [0.5, 20])
    assert seen[-1].equals(first.finals)
    assert first.settings == again.settings
    for name in ("finals", "curves"):
        pd.testing.assert_frame_equal(getattr(first, name), getattr(again, name))
    with pytest.raises(FairbanditError, match="expected a policy, got 'greeedy'"):
        fairbandit.run("greeedy")
    (tmp_path / "run.yaml").write_text("- greedy\n")
    with pytest.raises(FairbanditError, match="must hold a mapping"):
        fairbandit.run(tmp_path / "run.yaml")

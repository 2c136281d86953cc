"""What is read of saved runs is what they saved, and they are told apart."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from fairbandit.errors import FairbanditError
from fairbandit.results import SavedRun, labels, read_scenes
from fairbandit.run import summary as summaries
from fairbandit.run.execute import execute
from tests import support
from tests.figures.conftest import sweep


def cumulative(folder: Path, kind: str) -> Any:
    """Regrets summed over rounds, (replicas, rounds), from the rows one by one."""
    rows = pq.read_table(folder / "rounds").to_pylist()
    replicas = sorted({row["replica"] for row in rows})
    rounds = max(row["round"] for row in rows)
    regrets = np.zeros((len(replicas), rounds))
    for row in rows:
        regrets[replicas.index(row["replica"]), row["round"] - 1] = row[f"{kind}_regret"]
    return regrets.cumsum(1)


@pytest.mark.parametrize("kind", ["fair", "standard"])
def test_curves_are_means_and_deviations_of_the_saved_rounds(simulated, kind):
    folder = simulated / "greedy"
    curve = SavedRun(folder, summaries.read(folder)).curves[f"{kind}_regret"]
    expected = cumulative(folder, kind)[:, curve.rounds - 1]
    assert (curve.rounds[0], curve.rounds[-1]) == (1, 400)
    assert len(curve.rounds) > 300
    np.testing.assert_allclose(curve.mean, expected.mean(0), rtol=1e-12)
    np.testing.assert_allclose(curve.std, expected.std(0, ddof=1), rtol=1e-9)


def test_curves_end_where_the_summary_says(scene):
    for run in scene.runs:
        assert set(run.curves) == {"fair_regret", "standard_regret"}
        for column, curve in run.curves.items():
            spread = run.runs[0].summary["metrics"][column]
            assert curve.mean[-1] == pytest.approx(spread["mean"])
            assert curve.std[-1] == pytest.approx(spread["std"])


def test_missing_rounds_and_damaged_files_are_refused(tmp_path, simulated):
    folder = tmp_path / "greedy"
    shutil.copytree(simulated / "greedy", folder)
    summary = summaries.read(folder)
    with pytest.raises(FairbanditError, match=r"holds 1,200 rows, where .* says 500 rounds of 3"):
        SavedRun(folder, {**summary, "rounds": 500}).picks()
    with pytest.raises(FairbanditError, match="rounds in order, each of all replicas, up to round"):
        SavedRun(folder, {**summary, "rounds": 300}).picks()
    (part,) = folder.glob("rounds/*")
    part.write_bytes(part.read_bytes()[:1000])
    with pytest.raises(FairbanditError, match="cannot be read"):
        SavedRun(folder, summary).picks()
    part.unlink()
    with pytest.raises(FairbanditError, match=r"part-000000-000000001\.parquet lacking"):
        SavedRun(folder, summary).picks()


def test_a_scene_lists_its_runs_in_the_papers_order(scene):
    assert scene.name == "simulation"
    assert [run.label for run in scene.runs] == ["uniform", "greedy", "fair_greedy"]
    assert scene.groups == ("0", "1", "2", "3")
    assert scene.candidates == 4


def test_runs_of_one_policy_are_told_apart(tmp_path, simulated):
    sweep(tmp_path / "more", {"name": "simulation"}, ["greedy"], seed=7)
    sweep(tmp_path / "again", {"name": "simulation"}, ["uniform"])
    folders = [simulated, tmp_path / "more", tmp_path / "again"]
    (scene,) = read_scenes(folders, over=())
    labels = [run.label for run in scene.runs]
    assert sorted(labels[2:4]) == ["greedy, seed=0", "greedy, seed=7"]
    assert labels[4:] == ["fair_greedy"]
    assert sorted(labels[:2])[0] == "uniform"
    assert len(set(labels)) == 5
    (pooled,) = read_scenes(folders)
    copy, *others = sorted(run.label for run in pooled.runs)[::-1]
    assert others == ["uniform", "greedy", "fair_greedy"]
    assert copy.startswith("uniform, ")
    assert [run.replicas for run in pooled.runs] == [3, 3, 6, 3]


def test_environments_are_scenes_apart(tmp_path, simulated, mixed):
    sweep(tmp_path, {"name": "simulation", "noise": 1.0}, ["uniform"])
    scenes = read_scenes([simulated, mixed, tmp_path])
    assert [one.name for one in scenes] == [
        "simulation, noise=1.0",
        "simulation, noise=2.0",
        "table",
    ]
    assert [len(one.runs) for one in scenes] == [1, 3, 3]


def test_rewards_are_densities_and_cdfs(scene, mixed_scene):
    for one in (scene, mixed_scene):
        assert len(one.rewards) == len(one.groups)
        for rewards in one.rewards:
            assert np.trapezoid(rewards.density, rewards.values) == pytest.approx(1, abs=0.02)
            assert (np.diff(rewards.cdf) >= 0).all()
            assert rewards.cdf[-1] == pytest.approx(1, abs=0.01)


def test_rewards_that_nobody_saved_are_not_known(tmp_path, simulated):
    shutil.copytree(simulated / "greedy", tmp_path / "greedy")
    (tmp_path / "greedy" / "rewards.parquet").unlink()
    (scene,) = read_scenes([tmp_path])
    assert scene.rewards == (None,) * 4


def test_a_choice_of_policies(scene):
    assert [run.label for run in scene.only(["greedy", "gmf"]).runs] == ["greedy"]
    assert scene.only(None) is scene
    with pytest.raises(
        FairbanditError, match="of 'gmf'; there are runs of 'fair_greedy', 'greedy'"
    ):
        scene.only(["gmf"])


def test_groups_in_order_of_their_codes(mixed_scene):
    run = mixed_scene.runs[0]
    mean, std = run.by_group("selected")
    saved = json.loads((run.runs[0].folder / "summary.json").read_text())["selected"]
    assert mean.tolist() == [saved[group]["mean"] for group in mixed_scene.groups]
    assert std.tolist() == [saved[group]["std"] for group in mixed_scene.groups]


def settings(policy: str = "mine", **estimator: Any) -> dict[str, Any]:
    found = {f"policy.estimator.{key}": value for key, value in estimator.items()}
    return {"policy": policy, "environment": "simulation", **found}


def test_labels_hold_what_differs_and_nothing_else():
    alike: dict[str, Any] = {"regularization": 0.1, "refresh": None}
    given = [
        settings(name="ridge", noise=0.0, **alike),
        settings(name="kernel", width=2.0, **alike),
        settings(name="kernel", width=3.0, **alike),
    ]
    assert labels(given, "policy") == [
        "mine, estimator=ridge",
        "mine, estimator=kernel, width=2.0",
        "mine, estimator=kernel, width=3.0",
    ]
    assert labels([settings(refresh=None), settings(refresh=2.0)], "policy") == [
        "mine, refresh=null",
        "mine, refresh=2.0",
    ]
    assert labels([settings(), settings(width=2.0)], "policy") == ["mine", "mine, width=2.0"]


def test_long_values_are_cut_unless_they_become_the_same():
    first, other, long = "[1, 2]", f"[{'1, ' * 40}3]", f"[{'1, ' * 20}4, {'1, ' * 20}3]"
    brief, cut = labels([settings(theta=first), settings(theta=other)], "policy")
    assert brief == "mine, theta=[1, 2]"
    assert cut == "mine, theta=[1, 1, 1, 1, 1, …, 1, 1, 1, 1, 3]"
    same = labels([settings(theta=other), settings(theta=long)], "policy")
    assert same == [f"mine, theta={value}" for value in (other, long)]


def test_runs_of_a_policy_are_in_the_order_of_their_settings(tmp_path):
    for value in (0.5, 10.0, 0.05):
        estimator = {"estimator": {"name": "ridge", "regularization": value}}
        config = {
            "policy": {"name": "mine", **support.PRESETS["fair_greedy"], **estimator},
            "environment": {"name": "simulation"},
            **{"rounds": 5, "replicas": 1},
        }
        execute(config, tmp_path / str(value), progress=False)
    (found,) = read_scenes([tmp_path])
    assert [run.label for run in found.runs] == [
        f"mine, regularization={value}" for value in (0.05, 0.5, 10.0)
    ]
    (alone,) = found.among(found.runs[1:2]).runs
    assert alone.label == "mine"

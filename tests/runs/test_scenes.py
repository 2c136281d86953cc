"""What is read of saved runs is what they saved, and they are told apart."""

from fairbandit.runs import read_scenes
from fairbandit.runs.execute import execute
from tests import support
from tests.figures.conftest import sweep


def test_a_scene_lists_its_runs_in_the_papers_order(scene):
    assert scene.name == "simulation"
    assert [run.label for run in scene.runs] == ["Uniform random", "Greedy", "Fair-Greedy"]
    assert scene.groups == ("0", "1", "2", "3")
    assert scene.candidates == 4


def test_environments_are_scenes_apart(tmp_path, simulated, mixed):
    sweep(tmp_path, {"name": "simulation", "noise": 1.0}, ["uniform"])
    scenes = read_scenes([simulated, mixed, tmp_path])
    names = ["simulation, noise=1.0", "simulation, noise=2.0", "table"]
    assert [one.name for one in scenes] == names
    assert [len(one.runs) for one in scenes] == [1, 3, 3]


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

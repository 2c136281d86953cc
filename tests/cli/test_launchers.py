"""Sweeps on several processes, and the ready configs for clusters."""

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from fairbandit.building import conf_folder
from fairbandit.cli.store import publish, register_resolvers
from tests.killing import checkpoints, finish, kill_after, leftovers, outcome, start, until, workers

PLUGIN = """
from fairbandit import register
from fairbandit.parts import Identity

@register("rank", "backwards")
class Backwards(Identity):
    '''Worst first.'''
    def _index(self, candidates):
        return -super()._index(candidates)
"""

SWEEP = ["-m", "policy=greedy", "policy/rank=backwards,identity", "rounds=200"]


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clean: None) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "plugin_backwards.py").write_text(PLUGIN)
    monkeypatch.setenv("FAIRBANDIT_PLUGINS", "mine")


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize(
    ("launcher", "swept"),
    [("joblib", ["replicas=0,2", "seed=0,1"]), ("submitit_local", ["replicas=2"])],
)
@pytest.mark.long
def test_workers_do_what_this_process_does_plugins_and_all(command, tmp_path, launcher, swept):
    """Under joblib half of the jobs fail, which leaves the others alone.

    Under submitit each job is a process: one plays the plugin's part and one fairbandit's.
    """
    words = [f"hydra/launcher={launcher}", *swept, "hydra.sweep.dir=sweep"]
    words += ["hydra.launcher.n_jobs=2"] if launcher == "joblib" else []
    code, out = finish([*SWEEP, *words], tmp_path)
    if launcher == "joblib":
        assert code == 1
        assert "All jobs: 4 finished, 4 failed" in out
        assert out.count("replicas must be at least 1, got 0\n") == 4
        assert "Traceback" not in out
    else:
        assert code == 0, out
        assert "All jobs" in out
        assert leftovers(tmp_path) == []
    code, _, _ = command(*SWEEP, *swept, "hydra.sweep.dir=alone")
    assert code == (launcher == "joblib")
    assert outcome(tmp_path / "sweep") == outcome(tmp_path / "alone")
    assert leftovers(tmp_path / "sweep") == leftovers(tmp_path / "alone")


def test_workers_end_soon_after_their_driver_was_killed(tmp_path):
    words = ["-m", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "seed=0,1", "policy=oful"]
    running = start([*words, "rounds=100000"], tmp_path)
    until(lambda: checkpoints(tmp_path) == 2)
    known = list(workers(running.pid))
    assert len(known) == 2
    kill_after(running, 0)
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in known), seconds=20)


def test_the_slurm_config_composes():
    register_resolvers()
    publish()
    with initialize_config_dir(str(conf_folder()), version_base="1.3"):
        composed = compose("config", ["hydra/launcher=slurm"], return_hydra_config=True)
    launcher = composed.hydra.launcher
    assert launcher._target_.endswith("SlurmLauncher")
    assert launcher.cpus_per_task == 1
    assert launcher.max_num_timeout > 0


@pytest.mark.parametrize(
    ("launcher", "extra"), [("ray_cluster", "ray"), ("ray", "ray"), ("ray_aws", "ray")]
)
def test_a_launcher_that_is_not_installed_names_its_extra(command, launcher, extra):
    pytest.importorskip("hydra_plugins")
    code, _, err = command("-m", f"hydra/launcher={launcher}", "seed=0,1")
    assert code == 1
    assert "is not installed; pip install 'fairbandit[" + extra + "]'" in err
    assert err.count("\n") == 1

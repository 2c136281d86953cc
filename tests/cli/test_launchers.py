"""Sweeps on several processes."""

import pytest

from tests.killing import finish, leftovers, outcome

SWEEP = ["-m", "policy=greedy", "policy/rank=backwards,identity", "rounds=200"]


@pytest.mark.all
@pytest.mark.parametrize(
    ("launcher", "swept"),
    [("joblib", ["replicas=0,2", "seed=0,1"]), ("submitit_local", ["replicas=2"])],
)
def test_workers_do_what_this_process_does(command, tmp_path, plugin, launcher, swept):
    """Under joblib half of the jobs fail, which leaves the others alone.

    Under submitit each job is a process: one plays the plugin's part and one fairbandit's.
    """
    plugin("backwards")
    words = [f"hydra/launcher={launcher}", *swept, "hydra.sweep.dir=sweep"]
    words += ["hydra.launcher.n_jobs=2"] if launcher == "joblib" else []
    code, out = finish([*SWEEP, *words], tmp_path)
    if launcher == "joblib":
        assert code == 1
        assert "All jobs: 4 finished, 4 failed" in out
        assert "failed  4 jobs, as rank-backwards_replicas-0_seed-0: replicas must be at " in out
        assert "Traceback" not in out
    else:
        assert code == 0, out
        assert "All jobs" in out
        assert leftovers(tmp_path) == []
    code, _, _ = command(*SWEEP, *swept, "hydra.sweep.dir=alone")
    assert code == (launcher == "joblib")
    assert outcome(tmp_path / "sweep") == outcome(tmp_path / "alone")
    assert leftovers(tmp_path / "sweep") == leftovers(tmp_path / "alone")

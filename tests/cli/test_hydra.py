"""Hydra's own conventions work, and parts come from registered names alone."""

import logging
import sys

import pytest
from hydra import compose, initialize_config_dir

from fairbandit.cli.main import main
from fairbandit.cli.store import publish, register_resolvers
from fairbandit.policy.build import conf_folder
from tests.environments.data import people, write

SMALL = ["rounds=3", "replicas=1"]

CALLBACK = """
import logging
from hydra.experimental.callback import Callback

class Mine(Callback):
    def __init__(self, word):
        self.word = word
    def on_run_start(self, config, **kwargs):
        print(self.word, "run starts")
    def on_job_end(self, config, job_return, **kwargs):
        logging.getLogger("mine").info("%s job %s", self.word, job_return.status.name)
"""


@pytest.fixture
def code(tmp_path, monkeypatch):
    """A folder of modules of the user's own."""
    (tmp_path / "code").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "code")
    yield tmp_path / "code"
    sys.modules.pop("trap", None)


@pytest.fixture
def logging_undone():
    """Removes the handlers of logging that a command added."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_relative_paths_are_seen_from_where_the_command_was_given(command, tmp_path):
    write(tmp_path / "people.csv", people())
    (tmp_path / "columns.yaml").write_text("age: null\n")
    given = ["environment=table", "environment.group=group", "environment.reward=wage", *SMALL]
    given += [f"environment.{key}=people.csv" for key in ("path", "scaler_path")]
    given += ["environment.columns=columns.yaml", "hydra.job.chdir=true"]
    for words, folder in (([], "hydra.run.dir=out"), (["-m"], "hydra.sweep.dir=out/all")):
        assert command(*words, *given, folder)[::2] == (0, "")
    config = (tmp_path / "out" / ".hydra" / "config.yaml").read_text()
    assert "path: people.csv\n" in config
    assert len([*(tmp_path / "out").rglob("summary.json")]) == 2


@pytest.mark.usefixtures("logging_undone")
def test_a_callback_of_the_users_own_and_logging(command, code):
    (code / "trap.py").write_text(CALLBACK)
    mine = ["+hydra.callbacks.mine={_target_:trap.Mine,word:hello}", "hydra/job_logging=stdout"]
    exit_code, out, _ = command(*mine, *SMALL)
    assert exit_code == 0
    assert "hello run starts\n" in out
    assert "hello job COMPLETED\n" in out
    exit_code, out, _ = command("-m", *mine, "rounds=3", "replicas=1,0")
    assert exit_code == 1
    assert out.count("hello job COMPLETED\n") == 1
    assert out.count("hello job FAILED\n") == 1  # and the sweep goes on all the same
    assert "All jobs: 1 finished, 1 failed" in out


def test_callbacks_of_runs_are_built_by_hydra(command, code):
    (code / "trap.py").write_text(
        "from fairbandit import Callback\nclass Mine(Callback):\n"
        "    def __init__(self, word): self.word = word\n"
        "    def on_start(self, settings): print(self.word, settings['policy.name'])\n"
        "    def on_rounds(self, t, means): print(t, *means)\n"
        "    def on_end(self, run): print(run.folder.name, len(run.curves) > 0)\n"
    )
    words = [*SMALL, "policy=greedy", "callbacks=[{_target_: trap.Mine, word: hello}]"]
    exit_code, out, _ = command(*words)
    assert exit_code == 0
    assert (
        "hello greedy\n3 standard_regret fair_regret\nrounds-3_replicas-1_policy-greedy True" in out
    )
    assert "hello" not in command(*words)[1]  # the run is finished
    wrong = command(*SMALL, "callbacks=[{_target_: trap.Nine}]", "seed=1")
    assert wrong[0] == 1
    assert "error: Error locating target 'trap.Nine'" in wrong[2]


def test_parts_come_from_registered_names_alone(command, code, tmp_path):
    (code / "trap.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\ndef run(): ...\n")
    for word in (
        "+policy.estimator._target_=trap.run",
        "+environment._target_=trap.run",
        "policy.rank={_target_:trap.run}",
        "policy.rank.name=trap.run",
        "+metrics={x:{_target_:trap.run,name:parity_gap}}",
    ):
        assert command(word, *SMALL)[0] == 1
        assert not (tmp_path / "ran").exists()


def test_a_config_folder_and_a_search_path_of_ones_own(command, tmp_path):
    for name in ("conf", "more"):
        (tmp_path / name / "experiment").mkdir(parents=True)
        text = f"# @package _global_\nseed: 7\nfigures: [price]\ndevice: {name}\n"
        (tmp_path / name / "experiment" / f"mine_{name}.yaml").write_text(text)
    for words in (
        ["--config-dir", "conf", "+experiment=mine_conf"],
        [f"hydra.searchpath=[file://{tmp_path / 'more'}]", "+experiment=mine_more"],
    ):
        exit_code, out, _ = command(*words, "--cfg", "job")
        assert exit_code == 0
        assert "seed: 7" in out


def test_the_flag_of_a_sweep_may_stand_anywhere(command, tmp_path):
    command("policy=uniform", "-m", "seed=0,1", *SMALL, f"hydra.sweep.dir={tmp_path}/sweep")
    assert len(list((tmp_path / "sweep").glob("*/summary.json"))) == 2


def test_hydra_shows_its_errors_in_full_when_asked(command, monkeypatch):
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    with pytest.raises(Exception, match="Could not find 'policy/nope'"):
        command("policy=nope")


def test_the_slurm_config_composes():
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    register_resolvers()
    publish()
    with initialize_config_dir(str(conf_folder()), version_base="1.3"):
        composed = compose("config", ["hydra/launcher=slurm"], return_hydra_config=True)
    assert composed.hydra.launcher._target_.endswith("SlurmLauncher")
    assert composed.hydra.launcher.max_num_timeout > 0


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("policy=fa", ["policy=fair_greedy", "policy=fair_greedy_oracle_cdf"]),
        ("policy/rank=re", ["policy/rank=recent_cdf"]),
        ("policy.estimator.reg", ["policy.estimator.regularization="]),
        ("environment=si", ["environment=simulation"]),
    ],
)
def test_the_shell_completes_keys_and_options(line, expected, monkeypatch, capsys):
    monkeypatch.setenv("COMP_LINE", f"fairbandit {line}")
    main(["-sc", "query=bash"])
    found = capsys.readouterr().out.split()
    assert set(expected) <= set(found)
    assert all(word.startswith(line) for word in found)

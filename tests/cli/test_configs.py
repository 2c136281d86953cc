"""No config names code, whichever way it comes in; and what it refers to is resolved or refused."""

import os
import sys
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from fairbandit.cli import configs
from fairbandit.plugins import load_plugins

SMALL = ["rounds=3", "replicas=1"]


@pytest.fixture(autouse=True)
def trap(tmp_path, monkeypatch):
    """A module that leaves a mark wherever it is imported or called."""
    (tmp_path / "code").mkdir()
    mark = f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).touch()\n"
    (tmp_path / "code" / "trap.py").write_text(f"{mark}def run(*args, **kwargs): return {{}}\n")
    monkeypatch.syspath_prepend(tmp_path / "code")
    yield
    imported = sys.modules.pop("trap", None)
    assert imported is None
    assert not (tmp_path / "ran").exists()


@pytest.fixture
def refused(command, tmp_path):
    """Gives words that must be refused: the message."""

    def give(*words):
        load_plugins()  # which adds their folder to PYTHONPATH
        before = dict(os.environ)
        code, out, err = command(*SMALL, *words)
        assert code == 1
        assert err.startswith("fairbandit: error: ")
        assert err.count("\n") == 1
        assert "Traceback" not in out + err
        assert not list(tmp_path.rglob("summary.json"))
        assert dict(os.environ) == before
        return err

    return give


WORDS = {
    "+hydra.job.env_set.FAIRBANDIT_PLUGINS=code": "hydra.job.env_set is refused",
    "+hydra.job.env_set.PYTHONPATH=code": "hydra.job.env_set is refused",
    "+hydra.job.env_set.ANY=1": "set them in the shell",
    "+hydra.job.env_set={LD_PRELOAD:x.so}": "hydra.job.env_set is refused",
    "hydra.job.env_copy=[HOME]": "is refused",
    'hydra.job.env_set="${oc.create:{A:b}}"': "hydra.job.env_set is refused",
    "+hydra.callbacks.x._target_=trap.run": "hydra.callbacks.x is refused",
    "hydra.callbacks.sweeps._target_=trap.run": "hydra.callbacks.sweeps is refused",
    'hydra.callbacks="${oc.create:{x:{_target_:trap.run}}}"': "hydra.callbacks is refused",
    "hydra.callbacks.sweeps=null": "hydra.callbacks.sweeps is refused",
    "~hydra.callbacks.sweeps": "cannot be removed",
    "hydra.launcher._target_=trap.run": "hydra.launcher._target_: ",
    "hydra.sweeper._target_=trap.run": "hydra.sweeper._target_: ",
    "++hydra.launcher.x._target_=trap.run": "hydra.launcher.x._target_: ",
    "+policy.estimator._target_=trap.run": "policy.estimator._target_: ",
    "hydra.launcher=${hydra.sweeper}": "hydra.launcher must be a mapping",
    "+hydra.job_logging.handlers.x.class=trap.run": "hydra.job_logging cannot be changed",
    "+hydra.hydra_logging.formatters.x.class=trap.run": "hydra.hydra_logging cannot be changed",
    'hydra.job_logging="${oc.create:{version:1}}"': "hydra.job_logging cannot be changed",
    "hydra.searchpath=[pkg://trap]": "can name packages to import",
    "+hydra.searchpath=[pkg://trap]": "can name packages to import",
}


@pytest.mark.parametrize("word", WORDS)
def test_no_word_names_code(refused, word):
    assert WORDS[word] in refused(word)


FILES = {
    "hydra: {job: {env_set: {FAIRBANDIT_PLUGINS: code}}}": "hydra.job.env_set is refused",
    "hydra: {job: {env_copy: [HOME]}}": "is refused",
    "hydra: {callbacks: {x: {_target_: trap.run}}}": "hydra.callbacks.x is refused",
    "hydra: {launcher: {_target_: trap.run}}": "hydra.launcher._target_: ",
    "hydra: {job_logging: {handlers: {x: {(): trap.run}}}}": "hydra.job_logging cannot be changed",
    "hydra: {hydra_logging: {formatters: {x: {(): trap.run}}}}": "hydra.hydra_logging cannot be",
    "hydra: {searchpath: [pkg://trap]}": "hydra.searchpath",
    "hydra: {mode: MULTIRUN, sweeper: {params: {seed: '0,1', hydra.searchpath: '[pkg://trap]'}}}": (
        "can name packages to import"
    ),
    "hydra: {mode: MULTIRUN, sweeper: {params: {seed: '0,1', +hydra.job.env_set.A: b}}}": (
        "hydra.job.env_set is refused"
    ),
    "hydra: {mode: MULTIRUN, sweeper: {params: {seed: glob(x*)}}}": "no value to sweep over",
}


@pytest.mark.parametrize("contents", FILES)
def test_no_file_names_code(refused, tmp_path, contents):
    (tmp_path / "conf" / "experiment").mkdir(parents=True)
    (tmp_path / "conf" / "experiment" / "mine.yaml").write_text(f"# @package _global_\n{contents}")
    assert FILES[contents] in refused("--config-dir", "conf", "+experiment=mine")


def test_a_job_of_a_sweep_is_checked_before_any_runs(refused, tmp_path):
    (tmp_path / "conf" / "experiment").mkdir(parents=True)
    for name, value in (("good", "{}"), ("evil", "{PYTHONPATH: code}")):
        text = f"# @package _global_\nhydra: {{job: {{env_set: {value}}}}}"
        (tmp_path / "conf" / "experiment" / f"{name}.yaml").write_text(text)
    message = refused("-m", "--config-dir", "conf", "+experiment=good,evil")
    assert "hydra.job.env_set is refused" in message


def test_no_launcher_runs_commands(refused):
    words = ["hydra/launcher=slurm", "hydra.launcher.setup=[trap]", "seed=0,1"]
    assert "hydra.launcher.setup is refused" in refused("-m", *words)


def test_a_launcher_instantiates_nothing_below_itself():
    callbacks = {"sweeps": {"_target_": configs.CALLBACKS["sweeps"]}}
    launcher = {"_target_": "hydra_plugins.x.Launcher", "y": "${oc.create:{_target_:trap.run}}"}
    config = OmegaConf.create(
        {"policy": {}, "hydra": {"callbacks": callbacks, "launcher": launcher}}
    )
    configs.refuse_code(config)
    assert config.hydra.launcher._recursive_ is False


def test_a_config_folder_of_ones_own(command, tmp_path):
    (tmp_path / "conf" / "experiment").mkdir(parents=True)
    text = "# @package _global_\nseed: 7\nreplicas: 1\n"
    (tmp_path / "conf" / "experiment" / "mine.yaml").write_text(text)
    code, out, _ = command("--config-dir", "conf", "+experiment=mine", "--cfg", "job")
    assert code == 0
    assert "seed: 7" in out


def test_hydras_own_choices_of_logging_stay(command):
    assert command("--cfg", "job", "hydra/job_logging=default", "hydra/hydra_logging=none")[0] == 0


KEYS = [
    "rounds",
    "resume",
    "device",
    "figures",
    "policy.name",
    "policy.estimator.noise",
    "policy.rank",
    "environment.theta",
    "hydra.run.dir",
    "hydra.verbose",
]
BROKEN = {
    "${nope}": "Interpolation key 'nope' not found",
    "${nope.nope}": "Interpolation key 'nope.nope' not found",
    "${oc.env:FAIRBANDIT_NOPE}": "\"Environment variable 'FAIRBANDIT_NOPE' not found\"",
    "${nope:x}": "Unsupported interpolation type nope",
}


@pytest.mark.parametrize(
    ("key", "value"),
    [*((key, "${nope}") for key in KEYS), *(("seed", value) for value in BROKEN)],
)
def test_bad_interpolations(refused, key, value):
    message = refused(f"{key}={value}")
    assert message.startswith(f"fairbandit: error: {key}")
    assert BROKEN[value] in message


@pytest.mark.parametrize("policy", ["name", "rank", "estimator.noise"])
def test_bad_interpolations_are_named_by_their_key_in_a_folder_of_ones_own(refused, policy):
    message = refused(f"policy.{policy}=${{nope}}", "hydra.run.dir=run")
    assert f"policy.{policy}: Interpolation key 'nope' not found" in message


@pytest.mark.parametrize("key", ["rounds", "policy.estimator.noise", "hydra.run.dir"])
def test_an_interpolation_of_itself(refused, key):
    message = refused(f"{key}=${{{key}}}")
    assert key in message
    assert "Recursive interpolation detected" in message


@pytest.mark.parametrize("key", ["hydra.sweep.dir", "hydra.sweep.subdir", "environment.noise"])
def test_bad_interpolations_in_a_sweep(refused, key):
    assert "Interpolation key 'nope' not found" in refused("-m", "seed=0,1", f"{key}=${{nope}}")


def test_an_interpolation_of_the_wrong_type(refused, monkeypatch):
    monkeypatch.setenv("FAIRBANDIT_TEXT", "much")
    message = refused("seed=${oc.env:FAIRBANDIT_TEXT}")
    assert "seed: While dereferencing interpolation" in message
    assert "'much' of type 'str' could not be converted to Integer" in message


def test_good_interpolations_are_resolved(command, tmp_path):
    assert command("seed=${rounds}", *SMALL)[0] == 0
    (folder,) = (tmp_path / "outputs" / "runs").iterdir()
    assert folder.name == "seed-3_rounds-3_replicas-1"


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("policy=glob(nothing*)", "policy=glob(nothing*): there is no value to sweep over"),
        ("seed=range(5,1)", "seed=range(5,1): there is no value to sweep over"),
        ("seed=range(0,1000000000)", "the sweep over seed has more than 100,000 jobs"),
        ("environment.noise=range(0,1,1e-9)", "has more than 100,000 jobs"),
        ("environment.noise=interval(0,1)", "does not support sweep type"),
    ],
)
def test_sweeps_of_no_jobs_or_of_too_many(refused, tmp_path, word, message):
    assert message in refused("-m", word)
    assert not list(tmp_path.rglob("multirun.yaml"))


def test_the_bound_is_on_all_jobs_together(refused):
    message = refused("-m", "seed=range(0,1000)", "environment.noise=range(0,1000)")
    assert "the sweep over seed, environment.noise has more than 100,000 jobs" in message


def test_an_error_of_our_own_keeps_its_traceback(command, monkeypatch):
    def broken(config):
        raise TypeError("a bug")

    monkeypatch.setattr("fairbandit.cli.job.plain_config", broken)
    with pytest.raises(TypeError, match="a bug"):
        command(*SMALL)


def test_a_bug_in_a_check_keeps_its_traceback(command, monkeypatch):
    monkeypatch.setattr(configs, "refuse_code", SimpleNamespace())
    with pytest.raises(TypeError):
        command(*SMALL)

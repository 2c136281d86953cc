"""The command as its users see it: what a run prints, writes, refuses and returns."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fairbandit
from fairbandit import registry
from fairbandit.policy.build import build_policy, presets
from fairbandit.ranks import Identity
from tests import support

SMALL = ["rounds=12", "replicas=2"]


def summaries(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(folder.rglob("summary.json"))]


def test_the_policies_of_the_design_are_there():
    assert {**support.PRESETS, **support.NOTIONS}.keys() == presets().keys()
    for name, parts in {**support.PRESETS, **support.NOTIONS}.items():
        assert build_policy(name).describe() == {**build_policy(parts).describe(), "name": name}


@pytest.mark.parametrize(
    "policy",
    [pytest.param(name, marks=[pytest.mark.all] * (n % 4 > 0)) for n, name in enumerate(presets())],
)
def test_every_policy_composes_and_runs_as_without_hydra(command, tmp_path, policy):
    code, out, err = command(f"policy={policy}", *SMALL)
    assert (code, err) == (0, "")
    (summary,) = summaries(tmp_path)
    described = build_policy(policy).describe()
    assert (summary["policy"], summary["config"]["policy"]) == (policy, described)
    assert policy in out
    (folder,) = (tmp_path / "outputs" / "runs").iterdir()
    assert folder.name == f"policy-{policy}_rounds-12_replicas-2"
    saved = sorted(path.name for path in (folder / ".hydra").iterdir())
    assert saved == ["config.yaml", "hydra.yaml", "overrides.yaml"]


def test_parts_and_parameters_from_the_command_line(command, tmp_path):
    words = ["policy=oful", "policy/rank=empirical_cdf", "policy.estimator.exploration=0.25"]
    assert command(*words, "policy/estimator=group_ridge", *SMALL)[0] == 1  # has no exploration
    assert command(*words, "environment.noise=1", "seed=${rounds}", *SMALL)[0] == 0
    (summary,) = summaries(tmp_path)
    config = summary["config"]
    assert config["policy"]["rank"] == {"name": "empirical_cdf"}
    assert config["policy"]["estimator"]["exploration"] == 0.25
    assert (config["environment"]["noise"], config["seed"]) == (1.0, 12)


def test_help_names_everything(command):
    code, out, _ = command("--help")
    assert code == 0
    for policy in presets():
        line = next(line for line in out.splitlines() if line.split()[:1] == [policy])
        assert len(line.split()) > 1
    for kind in registry.KINDS:
        for name in registry.names(kind):
            summary = registry.summary(registry.lookup(kind, name))
            assert any(name in line and summary in line for line in out.splitlines())
    for words in ("regularization=0.1", "rounds", "[null]", "gathers the summaries of many runs"):
        assert words in out


def run_script(script: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs a script in a Python of its own."""
    options = {"stdout": subprocess.PIPE, **options}
    return subprocess.run(
        [sys.executable, "-c", script], stderr=subprocess.PIPE, text=True, **options
    )


def test_help_and_the_package_load_nothing_heavy():
    done = run_script(
        "import sys, fairbandit; from fairbandit.cli.main import main; main(['--help'])\n"
        "assert fairbandit.build\n"
        "heavy = {'hydra', 'pandas', 'matplotlib', 'folktables', 'tensorboard', 'sklearn'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)))"
    )
    assert done.stderr.strip() == ""


def test_version_and_help_of_a_tool(command):
    assert command("--version")[1] == f"fairbandit {fairbandit.__version__}\n"
    code, out, _ = command("collect", "x=1", "--help")
    assert (code, out.splitlines()[0]) == (0, "usage: fairbandit collect FOLDER ... KEY=VALUE ...")


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("policy=fair-greedy", "'policy/fair-greedy' (did you mean 'fair_greedy'?); expected"),
        ("policy.estimator.nope=1", "policy.estimator has no key 'nope'; it takes regularization"),
        ("+policy.rank.alpha=1", "has no parameter 'alpha'; it takes none"),
        ("metrics.gap=parity_gap", "has no key 'gap'; it takes none (+metrics.gap=... adds a key"),
        ("path=x.csv", "'path' (a table is played by environment=table environment.path=...)"),
        ("theta=1", "has no key 'theta' (did you mean 'environment.theta'?)"),
        ("rounds=many", "rounds: Value 'many' of type 'str' could not be converted to Integer"),
        (
            "policy=greedy,gmf",
            "error: policy=greedy,gmf: give -m to play each value; a list is written policy=[greed",
        ),
        ("policy=[", "no viable alternative at input"),
        (
            "environment=table",
            "environment.path: Missing mandatory value: give environment.path=..",
        ),
        ("seed=${nope}", "seed: Interpolation key 'nope' not found"),
        ("hydra.run.dir=file/run", "Not a directory"),
    ],
)
def test_a_wrong_word_is_one_message(command, tmp_path, word, message):
    (tmp_path / "file").write_text("")
    code, out, err = command(word)
    assert code == 1
    assert err.partition("fairbandit: error: ")[0] in (
        "",
        f"Error executing job with overrides: {[word]}\n",
    )
    assert message in err
    assert "search path" not in err
    assert "Traceback" not in out + err
    assert not summaries(tmp_path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["collekt"], "unknown tool 'collekt' (did you mean 'collect'?); expected one of collect"),
        (["figures"], "fairbandit figures: expected FOLDER (see fairbandit figures --help)"),
        (["dashboard", ".", "port=many"], "port: Expected `int | null`, got `str`, 'many'"),
        (["explain", "log.jsonl"], "fairbandit explain: expected ticket=…"),
        (["table", "x.csv", "path=y.csv", "group=g"], "path: the table is x.csv, the first word"),
        (["audit", "x.jsonl", "path=1"], "unknown key 'path'; expected one of"),
        (["collect", "."], "no finished run below .: a run leaves a summary.json"),
        (
            ["table", "x.csv", "group=g", "grop=1"],
            "'table' has no parameter 'grop' (did you mean 'group'?); it",
        ),
        (["table", "x.csv", "group=g", "reward=r", "exclude=a,b"], "a list, as in exclude=[a,b]"),
        (["table", "x.csv", "city", "group=g"], "city: expected KEY=VALUE, a setting with its"),
        (["table", "x.csv", "exclude=[id,", "a]"], "; a list is written without spaces, as in KEY"),
        (["table", "x.csv", "--group", "g"], "--group; settings are written KEY=VALUE: group=..."),
        (["collect", ".", "policies=x"], "unknown key 'policies'"),
        (["collect", ".", "out=x.xlsx"], "must end in one of .parquet, .csv, .tex, .md"),
        (["check", "policy=no_such"], "unknown policy 'no_such'; expected one of debiased"),
        (["check", "rank=identity", "split.x=1"], "and KIND.KEY=VALUE, where KIND is one of"),
        (["check", "rank=recent_cdf", "rank.size=["], "size=[: the value cannot be read as YAML"),
    ],
)
def test_a_wrong_word_for_a_tool_is_one_message(command, words, message):
    code, out, err = command(*words)
    assert (code, out) == (1, "")
    assert err.startswith("fairbandit: error: ")
    assert message in err
    assert "Traceback" not in err


def test_more_memory_than_there_is(command, monkeypatch):
    monkeypatch.setattr(Identity, "_index", lambda _, given: given.problem.zeros(10**15))
    for mode in ((), ("-m",)):
        code, out, err = command(*mode, "policy/rank=identity", *SMALL)
        assert code == 1
        assert "does not fit into memory" in err
        assert "Traceback" not in out + err


def test_a_bug_keeps_its_traceback(command, monkeypatch):
    def broken(config):
        raise TypeError("a bug")

    monkeypatch.setattr("fairbandit.cli.job.plain_config", broken)
    with pytest.raises(TypeError, match="a bug"):
        command(*SMALL)


def test_a_process_of_its_own_finds_plugins_and_shows_warnings_as_errors(tmp_path, plugin):
    """On a terminal that lacks some of our characters."""
    plugin("backwards")
    words = ["policy=greedy", "policy/rank=backwards", "policy.rank.weight=2", *SMALL]
    terminal = {"PYTHONUTF8": "0", "LC_ALL": "POSIX", "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "fairbandit", *words],
        cwd=tmp_path,
        env={**terminal, "FAIRBANDIT_PLUGINS": "mine", "PYTHONPATH": str(support.REPOSITORY)},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()
    assert b" ? " in done.stdout
    (summary,) = summaries(tmp_path)
    assert summary["config"]["policy"]["rank"] == {"name": "backwards", "weight": 2.0}


def test_a_reader_that_leaves_is_no_error_of_ours():
    read, write = os.pipe()
    os.close(read)
    done = run_script("from fairbandit.cli.main import main; main(['--version'])", stdout=write)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")

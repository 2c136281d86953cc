"""The command as its users see it: what it prints, writes, refuses and returns."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import fairbandit
from fairbandit import FairbanditError, registry
from fairbandit.building import build_policy, conf_folder
from fairbandit.cli.messages import memory_errors
from fairbandit.parts import Identity
from tests import support

POLICIES = sorted(path.stem for path in (conf_folder() / "policy").glob("*.yaml"))

SMALL = ["rounds=12", "replicas=2"]


def summaries(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(folder.rglob("summary.json"))]


def test_the_policies_of_the_design_are_there():
    assert sorted({**support.PRESETS, **support.NOTIONS}) == POLICIES
    for name, parts in {**support.PRESETS, **support.NOTIONS}.items():
        assert build_policy(name).describe() == {**build_policy(parts).describe(), "name": name}


@pytest.mark.parametrize("policy", ["greedy", "minimum_pull"])
def test_another_estimator_in_a_named_policy(command, tmp_path, policy):
    assert command(f"policy={policy}", "policy/estimator=group_ridge", *SMALL)[0] == 0
    (summary,) = summaries(tmp_path)
    assert summary["config"]["policy"]["estimator"]["name"] == "group_ridge"


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_composes_and_runs(command, tmp_path, policy):
    code, out, err = command(f"policy={policy}", *SMALL)
    assert (code, err) == (0, "")
    (summary,) = summaries(tmp_path)
    assert summary["policy"] == policy
    assert summary["config"]["policy"]["name"] == policy
    assert policy in out
    assert "fair pseudo-regret" in out
    (folder,) = (tmp_path / "outputs" / "runs").iterdir()
    assert folder.name == f"policy-{policy}_rounds-12_replicas-2"
    assert sorted(path.name for path in (folder / ".hydra").iterdir()) == [
        "config.yaml",
        "hydra.yaml",
        "overrides.yaml",
    ]
    assert not list(folder.glob("*.log"))


def test_greedy_is_without_noise_and_oful_explores_as_the_environment_says(command, tmp_path):
    command("policy=greedy", *SMALL, "hydra.run.dir=greedy")
    command("policy=oful", *SMALL, "hydra.run.dir=oful")
    (greedy,), (oful,) = summaries(tmp_path / "greedy"), summaries(tmp_path / "oful")
    assert greedy["config"]["policy"]["estimator"]["noise"] == 0.0
    assert oful["config"]["policy"]["estimator"]["exploration"] == 1.0


def test_parts_and_parameters_from_the_command_line(command, tmp_path):
    words = ["policy=oful", "policy/rank=empirical_cdf", "policy.estimator.exploration=0.25"]
    assert command(*words, "environment.noise=1", "seed=3", *SMALL)[0] == 0
    (summary,) = summaries(tmp_path)
    config = summary["config"]
    assert config["policy"]["rank"] == {"name": "empirical_cdf"}
    assert config["policy"]["estimator"]["exploration"] == 0.25
    assert (config["environment"]["noise"], config["seed"]) == (1.0, 3)


def test_help_names_everything(command):
    code, out, _ = command("--help")
    assert code == 0
    assert command("-h")[1] == out
    for policy in POLICIES:
        line = next(line for line in out.splitlines() if line.split()[:1] == [policy])
        assert len(line.split()) > 1
    for kind in registry.KINDS:
        for name in registry.names(kind):
            summary = registry.summary(registry.lookup(kind, name))
            assert any(name in line and summary in line for line in out.splitlines())
    for words in ("regularization=0.1", "rounds", "[null]", "cdf=exact  (of exact, sampled)"):
        assert words in out


def run_script(script: str) -> subprocess.CompletedProcess[str]:
    """Runs a script in a Python of its own."""
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)


def test_help_loads_nothing_heavy():
    script = (
        "import sys; from fairbandit.cli.main import main; main(['--help'])\n"
        "heavy = {'hydra', 'pandas', 'matplotlib', 'folktables', 'tensorboard', 'sklearn'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)))"
    )
    done = run_script(script)
    assert done.stderr.strip() == ""


def test_a_sweep_says_so_before_anything_heavy_is_imported():
    script = (
        "import sys; from fairbandit.cli import main\n"
        "def load_plugins(): print(*{'torch', 'hydra', 'numpy'} & set(sys.modules)); sys.exit()\n"
        "main.load_plugins = load_plugins; main.main(['-m', 'seed=0,1'])\n"
    )
    done = run_script(script)
    assert (done.stdout, done.stderr) == ("composing the jobs\n\n", "")


def test_a_config_that_is_shown_is_nothing_but_the_config(command):
    code, out, _ = command("+experiment=notions", "--cfg", "job")
    assert code == 0
    assert "composing" not in out


def test_submodules_and_names_are_there_without_further_imports():
    script = (
        "import fairbandit; print(fairbandit.parts.Rank, fairbandit.build.__name__)\n"
        "try: fairbandit.nothing\n"
        "except AttributeError as error: print(error)\n"
    )
    done = run_script(script)
    assert done.stdout.splitlines() == [
        "<class 'fairbandit.parts.ranks.Rank'> build",
        "module 'fairbandit' has no attribute 'nothing'",
    ]


def test_version(command):
    assert command("--version")[1] == f"fairbandit {fairbandit.__version__}\n"


BAD = [
    ("policy=nope", "unknown policy 'nope'; the valid ones are epsilon_greedy, fair_greedy"),
    ("policy/rank=nope", "unknown policy/rank 'nope'; the valid ones are"),
    ("environment=nope", "unknown environment 'nope'; the valid ones are"),
    ("policy.estimator.nope=1", "policy.estimator has no key 'nope'; 'ridge' takes regularization"),
    ("policy.nope=1", "policy has no key 'nope'; it takes split, estimator"),
    ("environment.nope=1", "environment has no key 'nope'; 'simulation' takes groups"),
    ("nope=1", "the config has no key 'nope'; it takes rounds, replicas"),
    ("rounds=many", "rounds: Value 'many' of type 'str' could not be converted to Integer"),
    ("policy.estimator.regularization=big", "policy.estimator.regularization: Value 'big'"),
    ("environment.cdf=nope", "environment.cdf: Invalid value 'nope', expected one of [exact"),
    ("policy=[", "no viable alternative at input '['"),
    ("+policy.split.nope=1", "split 'halves' has no parameter 'nope'"),
    ("environment=table", "must be given: it has no default"),
    ("rounds=0", "rounds must be at least 1, got 0"),
    ("replicas=0", "replicas must be at least 1, got 0"),
    ("+policy.estimator._target_=os.getcwd", "cannot name code to run"),
    ("+hydra.callbacks.x._target_=os.getcwd", "cannot name code to run"),
    ("--experimental-rerun=x.pickle", "cannot name code to run"),
    ("policy/estimator=null", "Config group override must be a string or a list"),
    ("hydra.run.dir=file/run", "Not a directory"),
    ("polsh", "unknown tool 'polsh'; the tools are"),
    ("policy.rank.alpha=1", "'empirical_cdf' takes none; ranks that have it: tradeoff"),
    ("+policy.rank.alpha=1", "has no parameter 'alpha'; it takes none; ranks with 'alpha': trade"),
    ("policy/rank=nope", "come from plugins/ and the folders in FAIRBANDIT_PLUGINS"),
    ("policy.rank.name=nope", "fairbandit.load_plugins() registers those of"),
    ("policy.name=[]", "the name of a policy or of an environment must be a text, got []"),
    ("policy.name={a:1}", "must be a text, got {'a': 1}"),
    ("rounds=10000000000000000000000000", "rounds must be at most 1,000,000,000, got 1000"),
    ("replicas=1000000000", "replicas must be at most 1,000,000, got 1000000000"),
    ("threads=100000", "threads must be at most"),
    ("environment.groups=10000000000000000000000000", "groups: expected an integer of 64 bits"),
    ("environment.cdf_samples=1000000000000", "must be from 1 to 134,217,728 for 4 groups"),
    ("environment.bias=1e300", "at most 1e+50 in size"),
    ("figures=17", "figures is a list of names"),
    ("figures=[nope]", "unknown figure 'nope'; the figures are overview"),
    ("figures=[{overview:[1]}]", "figures is a list of names"),
    ("hydra.run.dir=/", "hydra.run.dir must name a folder for the output, got '/'"),
    ("hydra.run.dir=", "hydra.run.dir must name a folder for the output, got ''"),
    ("hydra.run.dir='a\0b'", "embedded null byte"),
    ("hydra.verbose=3", "AssertionError"),
    ("hydra=1", "Config group override must be a string or a list. Got int"),
]


@pytest.mark.parametrize(("word", "message"), BAD, ids=[word for word, _ in BAD])
def test_bad_words(command, tmp_path, word, message):
    (tmp_path / "file").write_text("")
    code, out, err = command(word)
    assert code == 1
    assert err.startswith("fairbandit: error: ")
    assert message in err
    assert err.count("\n") == 1
    assert "Traceback" not in out + err
    assert not summaries(tmp_path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("hydra.sweep.dir=/", "hydra.sweep.dir must name a folder for the output, got '/'"),
        ("hydra.sweep.subdir=.", "hydra.sweep.subdir must name a folder in"),
        ("hydra.sweep.subdir=../../outside", "hydra.sweep.subdir must name a folder in"),
        ("figures=[{overview:[1]}]", "figures is a list of names"),
        ("hydra.sweeper.max_batch_size=0", "AssertionError"),
        (
            "policy/rank=recent_cdf,identity,tradeoff policy.rank.size=1",
            "policy.rank.size is not a key of every policy/rank of this sweep: identity takes "
            "none, tradeoff takes alpha; these have it: recent_cdf takes size; sweep over them in",
        ),
        (
            "policy=greedy,oful policy.estimator.alpha=1,2",
            "every policy of this sweep: greedy takes regularization, noise, oful takes expl",
        ),
    ],
)
def test_bad_words_of_a_sweep(command, tmp_path, words, message):
    code, out, err = command("-m", "seed=0,1", *SMALL, *words.split())
    assert code == 1
    assert message in err
    assert err.count("\n") == 1
    assert "Traceback" not in out + err
    assert not summaries(tmp_path)


@pytest.mark.parametrize("columns", ["[a,b]", "a", "3"])
def test_columns_that_are_no_mapping(command, columns):
    table = ("environment=table", "environment.path=x.csv", "environment.group=g")
    word = f"environment.columns={columns}"
    code, out, err = command(*table, "environment.reward=r", word)
    assert code == 1
    assert "environment.columns must be a mapping {column: spec}, a spec being null" in err
    assert "Traceback" not in out + err


def test_more_memory_than_there_is(command, monkeypatch):
    monkeypatch.setattr(Identity, "bind", lambda _, problem: problem.zeros(10**15))
    for mode in ((), ("-m",)):
        code, out, err = command(*mode, "policy/rank=identity", *SMALL)
        assert code == 1
        assert "does not fit into memory" in err
        assert "Traceback" not in out + err
    with pytest.raises(FairbanditError, match="there is not enough memory: "), memory_errors():
        torch.empty(10**15)


def test_bad_words_in_a_process_of_their_own(tmp_path):
    command = [sys.executable, "-m", "fairbandit.cli.main", "policy=nope"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("fairbandit: error: unknown policy 'nope'; the valid ones")
    assert done.stderr.count("\n") == 1


def test_a_finished_run_is_left_as_it_is(command, tmp_path):
    assert command("hydra.run.dir=run", *SMALL)[0] == 0
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    code, _, err = command("hydra.run.dir=run", "seed=1", *SMALL)
    assert code == 1
    assert "already holds a finished run" in err
    after = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert after == before


def test_a_sweep_prints_one_table_and_leaves_a_folder_for_each_job(command, tmp_path):
    code, out, err = command("-m", "policy=greedy,uniform", "policy/rank=identity", *SMALL)
    assert (code, err) == (0, "")
    assert out.count("fair pseudo-regret") == 0
    assert out.count("All jobs") == 1
    (sweep,) = (tmp_path / "outputs" / "sweeps").iterdir()
    jobs = sorted(path.name for path in sweep.iterdir() if path.is_dir())
    assert jobs == [
        f"policy-{policy}_rank-identity_rounds-12_replicas-2" for policy in ("greedy", "uniform")
    ]
    assert {summary["policy"] for summary in summaries(sweep)} == {"greedy", "uniform"}
    table = out[out.index("All jobs") :]
    assert "greedy" in table
    assert "uniform" in table


def test_plugins_reach_the_command(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "backwards.py").write_text(
        "from fairbandit import register\n"
        "from fairbandit.parts import Candidates, Identity\n"
        "@register('rank', 'backwards')\n"
        "class Backwards(Identity):\n"
        "    '''Worst first.'''\n"
        "    def __init__(self, *, weight: float = 2.0) -> None:\n"
        "        self.weight = weight\n"
        "    def _index(self, candidates):\n"
        "        return -self.weight * super()._index(candidates)\n"
    )
    words = ["policy/rank=backwards", "policy.rank.weight=3", "hydra.run.dir=run", *SMALL]
    done = subprocess.run(
        [sys.executable, "-m", "fairbandit.cli.main", *words],
        cwd=tmp_path,
        env={"FAIRBANDIT_PLUGINS": "mine", "PATH": "", "PYTHONPATH": str(support.REPOSITORY)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    (summary,) = summaries(tmp_path)
    assert summary["config"]["policy"]["rank"] == {"name": "backwards", "weight": 3.0}


def test_names_that_look_like_markup_are_shown_as_they_are(command, tmp_path):
    rows = "".join(f"{('[red]', '[/x]')[i % 2]},{i},{i * i % 7}\n" for i in range(40))
    (tmp_path / "[bold]").mkdir()
    (tmp_path / "[bold]" / "people.csv").write_text(f"g,r,x\n{rows}")
    words = ["environment=table", "environment.path='[bold]/people.csv'", "environment.group=g"]
    words += ["environment.reward=r", "+environment.columns={x:null}", "rounds=6", "replicas=2"]
    for number, policy in enumerate(("greedy", "uniform")):
        where = f"hydra.run.dir='runs[/x]/{number}[red]'"
        code, out, err = command(f"policy={policy}", *words, where)
        assert (code, err) == (0, "")
        assert "selection rate, group [red]" in out
        assert "selection rate, group [/x]" in out
        assert f"results  runs[/x]/{number}[red]\n" in out
    code, out, err = command("collect", "runs[/x]", "--each")
    assert (code, err) == (0, "")
    assert "1[red]" in out
    code, out, err = command("parity", "runs[/x]")
    assert (code, err) == (0, "")
    assert "written  runs[/x]/parity.csv" in out
    code, out, err = command("figures", "runs[/x]", "--only", "price")
    assert (code, err) == (0, "")
    assert "runs[/x]/figures/price.pdf" in out.replace("\n", "")


LEAVING = """
from fairbandit import register
from fairbandit.parts import Identity

@register("rank", "leaves")
class Leaves(Identity):
    '''Leaves.'''
    def _index(self, candidates):
        raise SystemExit(0)
"""


@pytest.mark.usefixtures("clean")
def test_a_part_that_ends_the_process_is_a_failure(command, tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "plugin_leaves.py").write_text(LEAVING)
    monkeypatch.setenv("FAIRBANDIT_PLUGINS", str(tmp_path / "mine"))
    code, out, err = command("policy=greedy", "policy/rank=leaves", "rounds=6", "replicas=2")
    assert (code, out) == (1, "")
    assert "SystemExit(0) was raised in the middle of the run, at line 9 of" in err
    assert "plugin_leaves.py" in err
    words = ["-m", "policy=greedy", "policy/rank=leaves,identity", "rounds=6", "replicas=2"]
    code, out, err = command(*words)
    assert code == 1
    assert "All jobs: 1 finished, 1 failed" in out
    assert "plugin_leaves.py" in err


@pytest.mark.parametrize("words", [["--help"], ["--version"]])
def test_a_reader_that_leaves_is_no_error_of_ours(words):
    script = f"from fairbandit.cli.main import main; main({words!r})"
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-c", script], stdout=write, stderr=subprocess.PIPE, text=True
    )
    os.close(write)
    assert done.stderr == ""
    assert done.returncode == 1

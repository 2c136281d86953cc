"""Summaries of many runs, as one table."""

import copy
import json
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet
import pytest

from fairbandit.results.runs import KEYS
from fairbandit.run.summary import checksum


@pytest.fixture(scope="module")
def summary(tmp_path_factory):
    """The summary of a real run."""
    from fairbandit.cli.main import main

    folder = tmp_path_factory.mktemp("real")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        main(["rounds=8", "replicas=2", "hydra.run.dir=run"])
    return json.loads((folder / "run" / "summary.json").read_text(encoding="utf-8"))


@pytest.fixture
def save(summary, tmp_path):
    """Saves a run that differs from the real one in some keys of its config."""

    def run(folder, regret=1.5, std=None, **changes):
        made = copy.deepcopy(summary)
        made["fair_pseudo_regret"] = {"mean": regret, "std": std}
        for key, value in changes.items():
            at = made["config"]
            *path, last = key.split("__")
            for step in path:
                at = at.setdefault(step, {})
            at[last] = value
            if key in made:
                made[key] = value
        (tmp_path / folder).mkdir(parents=True)
        _write(made, tmp_path / folder)

    return run


def _write(summary: dict[str, Any], folder: Path) -> None:
    whole = summary | {"checksum": checksum(summary)}
    (folder / "summary.json").write_text(json.dumps(whole), encoding="utf-8")


def collected(
    command: Any, *folders: str, out: str = "runs.parquet", rows: tuple[str, ...] = ("--each",)
) -> list[dict[str, Any]]:
    code, _, err = command("collect", *folders, *rows, "--out", out)
    assert (code, err) == (0, "")
    return pyarrow.parquet.read_table(out).to_pylist()


def test_one_row_a_run_and_one_column_a_differing_key(command, save):
    save("runs/10", regret=3.0, policy__estimator__noise=0.5)
    save("runs/2", regret=2.0, seed=4)
    rows = collected(command, "runs")
    assert [row["folder"] for row in rows] == ["2", "10"]
    assert [row["seed"] for row in rows] == [4, 0]
    assert [row["policy.estimator.noise"] for row in rows] == [1e-8, 0.5]
    assert [row["fair_pseudo_regret_mean"] for row in rows] == [2.0, 3.0]
    assert [row["fair_pseudo_regret_std"] for row in rows] == [None, None]
    names = list(rows[0])
    assert names[:6] == [*KEYS, "policy.estimator.noise"]
    assert names[-3:] == ["seconds", "rounds_per_second", "folder"]
    assert {"standard_pseudo_regret_std", "selection_rate_0_mean", "received_3_std"} <= set(names)
    assert not {"device", "policy.name", "environment.name", "groups", "versions.torch"} & set(
        names
    )


def test_keys_that_only_some_runs_have(command, save):
    save("runs/a")
    save("runs/b", policy__rank={"name": "tradeoff", "alpha": 0.5})
    rows = collected(command, "runs")
    assert [row["policy.rank.name"] for row in rows] == ["empirical_cdf", "tradeoff"]
    assert [row["policy.rank.alpha"] for row in rows] == [None, 0.5]


def test_the_groups_of_all_environments_have_columns(command, save, summary, tmp_path):
    save("runs/a")
    other = copy.deepcopy(summary)
    other["groups"] = ["Black"]
    for key in ("selection_rate", "selected", "received"):
        other[key] = {"Black": {"mean": 0.5, "std": 0.1}}
    (tmp_path / "runs" / "b").mkdir()
    _write(other, tmp_path / "runs" / "b")
    first, second = collected(command, "runs")
    assert (first["selection_rate_Black_mean"], second["selection_rate_Black_mean"]) == (None, 0.5)
    assert second["selection_rate_0_mean"] is None
    assert list(first)[-1] == "folder"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2], [1, 2]),
        ([1, 0.5], [1.0, 0.5]),
        ([1, None], [1, None]),
        ([True, False], [True, False]),
        ([True, 1], ["true", "1"]),
        ([1, "1"], ["1", "1"]),
        ([0, 2**70], [0.0, 2.0**70]),
        ([["CA", "NY"], ["WY"]], ['["CA", "NY"]', '["WY"]']),
    ],
)
def test_values_of_every_type(command, save, values, expected):
    for index, value in enumerate(values):
        save(f"runs/{index}", environment__states=value)
    rows = collected(command, "runs")
    assert [row["environment.states"] for row in rows] == expected


def test_csv_says_the_same(command, save):
    save("runs/a", regret=1 / 3, environment__states=['a "quoted", name'])
    save("runs/b", environment__states=[])
    rows = collected(command, "runs")
    command("collect", "runs", "--each", "--out", "deep/er/runs.csv")
    read = pyarrow.csv.read_csv("deep/er/runs.csv").to_pylist()
    for one, other in zip(rows, read, strict=True):
        assert {k: v for k, v in one.items() if v is not None} == {
            k: v for k, v in other.items() if one[k] is not None
        }
        assert all(other[key] in (None, "") for key, value in one.items() if value is None)


def test_several_folders_and_one_given_twice(command, save):
    save("one/0")
    save("two/0", seed=1)
    rows = collected(command, "one", "two", "./one")
    assert [row["folder"] for row in rows] == ["one/0", "two/0"]
    assert [row["folder"] for row in collected(command, "one/0")] == ["."]


def test_the_table_on_the_screen(command, save):
    for seed in range(25):
        save(f"runs/{seed}", seed=seed, policy__estimator__noise=0.1 * seed)
    code, out, err = command("collect", "runs")
    assert (code, err) == (0, "")
    assert out.endswith("25 runs of 25 settings, the first 20 shown; --out keeps all\n")
    assert sum("fair_greedy" in line for line in out.splitlines()) == 20
    assert command("collect", "runs/3", "--each")[1].endswith("\n1 run\n")
    assert command("collect", "runs/3")[1].endswith("\n1 run of 1 setting\n")


def test_seeds_are_pooled(command, save):
    for seed in range(3):
        save(f"a/{seed}", seed=seed, regret=float(seed), std=0.5)
        save(f"b/{seed}", seed=seed, policy__estimator__noise=0.5)
    first, second = collected(command, ".", rows=())
    assert list(first)[:6] == [*KEYS[:-1], "policy.estimator.noise", "runs"]
    assert (first["runs"], first["fair_pseudo_regret_n"]) == (3, 6)
    assert first["fair_pseudo_regret_mean"] == 1.0
    assert first["fair_pseudo_regret_low"] < 1.0 < first["fair_pseudo_regret_high"]
    assert second["policy.estimator.noise"] == 0.5
    (both,) = collected(command, ".", rows=("--over", "seed, policy.estimator.noise"))
    assert both["runs"] == 6
    out = command("collect", ".")[1]
    assert out.endswith("6 runs of 2 settings\n")
    assert sum("fair_greedy" in line for line in out.splitlines()) == 2


def test_a_file_is_replaced_whole(command, save, tmp_path, monkeypatch):
    save("runs/a")
    (tmp_path / "runs.csv").write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(pyarrow.csv, "write_csv", full)
        code, _, err = command("collect", "runs", "--out", "runs.csv")
    assert code == 1
    assert "cannot write runs.csv: No space left on device" in err
    assert (tmp_path / "runs.csv").read_text() == "old"
    command("collect", "runs", "--out", "runs.csv")
    assert (tmp_path / "runs.csv").read_text().startswith('"policy","environment"')
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs", "runs.csv"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "is not valid JSON"),
        ("", "is not valid JSON"),
        ("[1]", "is no summary of a run: it holds a list, not a mapping"),
        ('{"policy": "x"}', "is no summary of a run: 'environment' should be a str, got None"),
    ],
)
def test_what_is_no_summary_is_named(command, save, tmp_path, text, fault):
    save("runs/a")
    (tmp_path / "runs" / "b").mkdir()
    (tmp_path / "runs" / "b" / "summary.json").write_text(text)
    code, out, err = command("collect", "runs", "--out", "runs.csv")
    assert (code, out) == (1, "")
    assert f"runs/b/summary.json {fault}" in err
    assert not (tmp_path / "runs.csv").exists()


def test_a_summary_without_regrets(command, save, tmp_path):
    save("runs/a", regret=1.0)
    path = tmp_path / "runs" / "a" / "summary.json"
    path.write_text(path.read_text().replace('"fair_pseudo_regret"', '"fair"'))
    assert "'fair_pseudo_regret' should have a mean and a std" in command("collect", "runs")[2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "fairbandit collect: the following arguments are required: FOLDER"),
        (["nowhere"], "nowhere is not a folder"),
        (["."], "no finished run below .: a run leaves a summary.json"),
        ([".", "--out", "runs.xlsx"], "runs.xlsx must end in .parquet or .csv"),
        (["runs", "--over", "sed"], "pooled over 'sed', which none of them has; they differ in no"),
        ([".", "--out"], "argument --out: expected one argument (see fairbandit collect --help)"),
    ],
)
def test_wrong_words(command, save, words, message):
    if words[:1] == ["runs"]:
        save("runs/a")
    code, out, err = command("collect", *words)
    assert (code, out) == (1, "")
    assert err.startswith("fairbandit: error: ")
    assert message in err


def test_help(command):
    code, out, _ = command("collect", "--help")
    assert code == 0
    assert "fairbandit collect outputs" in out
    assert "collect   " in command("--help")[1]

"""Summaries of many runs, as one table."""

import copy
import csv
import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.csv
import pyarrow.parquet
import pytest

from fairbandit.runs.execute import execute
from fairbandit.runs.overview import tidy
from fairbandit.runs.saved import KEYS
from fairbandit.runs.summary import checksum


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """The folder of a real run."""
    config = {"policy": {"name": "fair_greedy"}, "environment": {"name": "simulation"}}
    folder = tmp_path_factory.mktemp("real")
    execute({**config, "rounds": 8, "replicas": 2}, folder)
    return folder


@pytest.fixture
def save(real, tmp_path):
    """Saves a run that differs from the real one in some keys of its config."""
    summary = json.loads((real / "summary.json").read_text(encoding="utf-8"))

    def run(folder, regret=1.5, std=None, groups=None, **changes):
        made = copy.deepcopy(summary)
        made["metrics"]["fair_regret"] |= {"mean": regret, "std": std}
        if groups is not None:
            made["groups"] = groups
            for key, mean in (("selection_rate", 0.5), ("selected", 8.0), ("received", 16.0)):
                made[key] = {group: {"mean": mean, "std": 0.1} for group in groups}
        for key, value in changes.items():
            at = made["config"]
            *path, last = key.split("__")
            for step in path:
                at = at.setdefault(step, {})
            at[last] = value
            if key in made:
                made[key] = value
        (tmp_path / folder).mkdir(parents=True)
        shutil.copy(real / "curves.parquet", tmp_path / folder)
        whole = made | {"checksum": checksum(made)}
        (tmp_path / folder / "summary.json").write_text(json.dumps(whole), encoding="utf-8")

    return run


def collected(command: Any, *words: str) -> list[dict[str, Any]]:
    code, _, err = command("collect", *words, "--out", "runs.parquet")
    assert (code, err) == (0, "")
    return pyarrow.parquet.read_table("runs.parquet").to_pylist()


def test_one_row_a_run_and_one_column_a_differing_key(command, save):
    save("runs/10", regret=3.0, policy__estimator__noise=0.5)
    save("runs/2", regret=2.0, seed=4, policy__rank={"name": "tradeoff", "alpha": 0.5})
    save("runs/3", groups=["Black"])
    first, second, third = collected(command, "runs", "--each")
    assert [row["folder"] for row in (first, second, third)] == ["2", "3", "10"]
    alphas = [row["policy.rank.alpha"] for row in (first, second)]
    assert [first["seed"], *alphas] == [4, 0.5, None]
    assert (third["policy.estimator.noise"], third["fair_regret_mean"]) == (0.5, 3.0)
    assert (first["selection_rate_Black_mean"], second["selection_rate_Black_mean"]) == (None, 0.5)
    names = list(first)
    assert names[:5] == list(KEYS)
    assert names.index("folder") == names.index("seconds") + 1
    assert names[-1] == "received_Black_std"  # what only later rows have stands last
    assert {"standard_regret_std", "selection_rate_0_mean", "received_3_std"} <= set(names)
    assert not {"device", "policy.name", "groups", "versions.torch"} & set(names)
    twice = collected(command, "runs/2", "runs/3", "./runs/2", "--each")
    assert [row["folder"] for row in twice] == ["runs/2", "runs/3"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 0.5, None], [1.0, 0.5, None]),
        ([True, False], [True, False]),
        ([True, 0.5, "x"], ["true", "0.5", "x"]),
        ([0, 2**70], ["0", str(2**70)]),
        ([["CA", "NY"], ["WY"]], ['["CA", "NY"]', '["WY"]']),
    ],
)
def test_values_of_every_type(values, expected):
    texts = [json.dumps(v) if isinstance(v, list) else v for v in values]
    rows: list[Any] = [
        SimpleNamespace(settings={"x": text}, spreads={}, results=lambda **_: {"y": 1.0})
        for text in texts
    ]
    assert tidy(rows).column("x").to_pylist() == expected


def test_columns_and_order_of_a_file(command, save):
    for name, regret in (("a", 3.0), ("b", 1.0), ("c", 2.0)):
        save(f"runs/{name}", regret=regret, policy__name=name)
    rows = collected(command, "runs", "--columns", "fair_regret", "--sort", "fair_regret")
    assert [row["fair_regret_mean"] for row in rows] == [1.0, 2.0, 3.0]
    results = [name for name in rows[0] if name.endswith("_mean")]
    assert results == ["fair_regret_mean"]
    assert (
        "unknown column 'cost'"
        in command("collect", "runs", "--out", "t.csv", "--columns", "cost")[2]
    )
    wrong = command("collect", "runs", "--sort", "fair_regrt")[2]
    assert "unknown result or setting 'fair_regrt' (did you mean 'fair_regret'?)" in wrong


def test_seeds_are_pooled(command, save):
    for seed in range(3):
        save(f"a/{seed}", seed=seed, regret=float(seed), std=0.5)
        save(f"b/{seed}", seed=seed, policy__estimator__noise=0.5)
    first, second = collected(command, ".")
    assert list(first)[:7] == ["label", *KEYS[:-1], "policy.estimator.noise", "runs"]
    assert (first["runs"], first["fair_regret_n"], first["fair_regret_mean"]) == (3, 6, 1.0)
    assert first["fair_regret_low"] < 1.0 < first["fair_regret_high"]
    assert second["policy.estimator.noise"] == 0.5


def test_the_table_on_the_screen(command, save):
    for seed in range(25):
        save(f"runs/{seed}", seed=seed, std=0.25, policy__estimator__noise=0.1 * seed)
    code, out, err = command("collect", "runs")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    first, *_ = out.splitlines()
    assert first == "environment simulation, rounds 8, replicas 2"
    assert "± standard deviation over replicas" in out
    assert "lower is better" in out
    assert sum("fair_greedy" in line and "1.50 ± 0.25" in line for line in out.splitlines()) == 25
    assert out.endswith("25 runs of 25 settings\n")
    assert command("collect", "runs/3", "--each")[1].endswith("\n1 run\n")


def test_exports(command, save):
    hostile = "a|b_c & $5 {x} [y]"
    save("runs/a", std=0.5, policy__estimator__noise=hostile)
    save("runs/b", regret=1 / 3, policy__estimator__noise="100 %\nof \\it")
    words = "collect", "runs", "--columns", "fair_regret,selection_rate_0", "--format"
    markdown = command(*words, "markdown", "--sort", "noise")[1].splitlines()
    assert markdown[2:4] == [
        "| policy | noise | fair regret ↓ | selection rate 0 |",
        "| :-- | :-- | --: | --: |",
    ]
    assert markdown[4].startswith(r"| Fair-Greedy | 100 % of \\it | **0.3333** |")
    assert markdown[5].startswith(r"| Fair-Greedy | a\|b\_c \& \$5 {x} \[y\] | **1.50 ± 0.50** |")
    latex = command(*words, "latex", "--policies", "fair_greedy")[1].splitlines()
    rows = [line for line in latex if line.startswith("Fair")]
    assert rows[0].startswith(r"Fair-Greedy & 100 \% of \textbackslash{}it & \textbf{0.3333} & ")
    assert rows[1].startswith(r"Fair-Greedy & a|b\_c \& \$5 \{x\} {[}y] & \textbf{1.50 $\pm$ 0.50}")
    command(*words[:-1], "--policies", "fair_greedy", "--out", "new/table.tex")
    assert Path("new/table.tex").read_text(encoding="utf-8").splitlines() == latex
    wrong = command(*words, "latex", "--out", "table.csv")
    assert "--format latex contradicts the name table.csv" in wrong[2]
    assert latex[2:4] == [r"\begin{tabular}{llrr}", r"\toprule"]
    assert "(did you mean 'fair_regret'?)" in command(*words[:3], "fair_regrets")[2]
    command("collect", "runs", "--out", "deep/er/runs.csv")
    with Path("deep/er/runs.csv").open(newline="") as file:
        names = [row["policy.estimator.noise"] for row in csv.DictReader(file)]
    assert names == ["100 %\nof \\it", hostile]

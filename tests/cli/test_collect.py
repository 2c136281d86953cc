"""Results of many runs, as one table on the screen, for print, or in a file."""

import copy
import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from fairbandit.files.files import sha256
from fairbandit.runs.execute import execute
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
    """Saves a run that differs from the real one in its fair regret and in keys of its config."""
    summary = json.loads((real / "summary.json").read_text(encoding="utf-8"))
    finals = pq.read_table(real / "finals.parquet")

    def run(folder, regret=1.5, std=0.0, **changes):
        made, place = copy.deepcopy(summary), tmp_path / folder
        for key, value in changes.items():
            at = made["config"]
            *path, last = key.split("__")
            for step in path:
                at = at.setdefault(step, {})
            at[last] = value
            if key in made:
                made[key] = value
        made["policy"] = made["config"]["policy"]["name"]
        place.mkdir(parents=True)
        shutil.copy(real / "curves.parquet", place)
        table = finals.to_pandas()
        here = table["measure"] == "fair_regret"
        table.loc[here, "value"] = [regret - std * 0.5**0.5, regret + std * 0.5**0.5]
        new = finals.set_column(3, "value", [table["value"].to_numpy()])
        pq.write_table(new, place / "finals.parquet")
        made["files"]["finals.parquet"] = sha256(place / "finals.parquet")
        whole = made | {"checksum": checksum(made)}
        (place / "summary.json").write_text(json.dumps(whole), encoding="utf-8")

    return run


def collected(command: Any, *words: str) -> pd.DataFrame:
    code, _, err = command("collect", *words, "out=runs.parquet")
    assert (code, err) == (0, "")
    return pd.read_parquet("runs.parquet")


def test_rows_of_a_file(command, save):
    save("runs/10", regret=3.0, policy__estimator__noise=0.5)
    save("runs/2", regret=2.0, seed=4, policy__rank={"name": "tradeoff", "alpha": 0.5})
    save("runs/3")
    table = collected(command, "runs", "columns=fair_regret,selection_rate:0")
    assert [*table.columns[:4]] == ["label", "policy", "environment", "rounds"]
    assert {*table["measure"]} == {"fair_regret", "selection_rate"}
    assert {*table["group"]} == {"–", "0"}
    own = table[table["measure"] == "fair_regret"].set_index("mean")
    assert sorted(own.index) == [1.5, 2.0, 3.0]
    assert own.loc[2.0, "policy.rank.alpha"] == "0.5"
    assert own.loc[3.0, "policy.rank.alpha"] == "–"
    wrong = command("collect", "runs", "out=t.csv", "columns=cost")[2]
    assert "unknown column 'cost'" in wrong
    wrong = command("collect", "runs", "sort=fair_regrt")[2]
    assert "unknown setting 'fair_regrt' (did you mean 'fair_regret'?)" in wrong


def test_seeds_are_pooled(command, save):
    for seed in range(3):
        save(f"a/{seed}", seed=seed, regret=float(seed), std=0.5)
        save(f"b/{seed}", seed=seed, policy__estimator__noise=0.5)
    table = collected(command, ".", "columns=fair_regret")
    (first, second) = table.to_dict("records")
    assert (first["n"], first["mean"]) == (6, 1.0)
    assert first["low"] < 1.0 < first["high"]
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
    assert command("collect", "runs/3")[1].endswith("\n1 run of 1 setting\n")


def test_exports(command, save):
    hostile = "a|b_c & $5 {x} [y]"
    save("runs/a", std=0.5, policy__estimator__noise=hostile)
    save("runs/b", regret=1 / 3, policy__estimator__noise="100 %\nof \\it")
    words = "collect", "runs", "columns=fair_regret,selection_rate:0"
    assert command(*words, "out=table.md", "sort=noise")[1] == "2 runs of 2 settings: table.md\n"
    markdown = Path("table.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)] for row in markdown[2:6]]
    assert cells[0][1:5] == ["policy", "noise", "fair regret ↓", "selection rate 0"]
    assert [re.sub("-+", "-", cell) for cell in cells[1]] == ["", ":-", ":-", "-:", "-:", ""]
    assert cells[2][1:4] == ["Fair-Greedy", r"100 % of \\it", "**0.3333 ± 0**"]
    assert cells[3][1:4] == ["Fair-Greedy", r"a\|b\_c \& \$5 {x} \[y\]", "**1.50 ± 0.50**"]
    command(*words, "policy=fair_greedy", "out=new/table.tex")
    latex = Path("new/table.tex").read_text(encoding="utf-8").splitlines()
    rows = [line for line in latex if line.startswith("Fair")]
    assert rows[0].startswith(
        r"Fair-Greedy & 100 \% of \textbackslash{}it & \textbf{0.3333 $\pm$ 0} & "
    )
    assert rows[1].startswith(r"Fair-Greedy & a|b\_c \& \$5 \{x\} {[}y] & \textbf{1.50 $\pm$ 0.50}")
    assert latex[2:4] == [r"\begin{tabular}{llrr}", r"\toprule"]
    assert (
        "(did you mean 'fair_regret'?)"
        in command(*words[:2], "columns=fair_regrets", "out=table.tex")[2]
    )
    command("collect", "runs", "out=deep/er/runs.csv")
    with Path("deep/er/runs.csv").open(newline="") as file:
        names = {row["policy.estimator.noise"] for row in csv.DictReader(file)}
    assert names == {"100 %\nof \\it", hostile}

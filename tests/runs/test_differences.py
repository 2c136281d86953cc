"""Differences from a baseline, against pandas on the rows of the round logs."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pytest

import fairbandit
from fairbandit import FairbanditError
from fairbandit.cli.collect import collect
from tests.environments.data import arguments, people, write
from tests.figures.conftest import sweep

STUDENT = {4: 3.182446, 6: 2.570582}
"""The 97.5 % quantiles of Student's t for n = 4 and 6 replicas, from a printed table."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three policies in a table under two seeds; uniform has two of the three replicas."""
    folder = tmp_path_factory.mktemp("against")
    world = arguments(write(folder / "people.csv", people()), pool="random")
    for seed in range(2):
        place = folder / str(seed)
        sweep(place, world, ["greedy", "fair_greedy"], seed=seed, rounds=60)
        sweep(place, world, ["uniform"], seed=seed, rounds=60, replicas=2)
    return folder


def collected(folder: Path, *words: str) -> dict[str, dict[str, Any]]:
    file = folder / "differences.csv"
    collect([str(folder), "--against", "greedy", *words, "--out", str(file)])
    return {row["policy"]: row for row in pyarrow.csv.read_csv(file).to_pylist()}


def test_differences_are_paired(folder, capsys):
    runs, std = fairbandit.load(folder), np.std(people()["wage"])
    rows = runs.rounds().merge(runs.table[["folder", "policy", "seed"]], on="folder")
    rows["cost"], rows["of_b"] = rows.standard_regret * std / 60, (rows.group == "b") / 60
    ends = rows.groupby(["policy", "seed", "replica"])[["cost", "fair_regret", "of_b"]].sum()
    found = collected(folder, "--by", "group")
    assert found.keys() == {"uniform", "fair_greedy"}
    columns = {"cost": "cost_per_pick", "fair_regret": "fair_regret", "of_b": "share:b"}
    for policy, row in found.items():
        assert row["baseline"] == "Greedy"
        differences = (ends.loc[policy] - ends.loc["greedy"]).dropna()  # joins the pairs
        n = len(differences)
        for own, column in columns.items():
            mean, spread = differences[own].mean(), differences[own].std(ddof=1)
            half = STUDENT[n] * spread / np.sqrt(n)
            assert row[f"{column}_n"] == n
            parts = [row[f"{column}_{part}"] for part in ("mean", "std", "low", "high")]
            assert parts == pytest.approx([mean, spread, mean - half, mean + half], rel=1e-6)
    assert "4 runs of 2 settings" in capsys.readouterr().out


def test_the_printed_differences(folder, capsys):
    words = [str(folder), "--against", "greedy", "--policies", "uniform"]
    collect(words)
    shown = " ".join(capsys.readouterr().out.split())
    assert "rounds 60, replicas 4, baseline Greedy" in shown  # only the shared replicas
    assert "mean [95 % interval over replicas]" in shown
    assert "standard regret ↓" not in shown  # which is in standard deviations
    row = collected(folder, "--columns", "cost_per_pick")["uniform"]
    assert not [name for name in row if name.startswith("fair_regret")]
    low, high = (row[f"cost_per_pick_{end}"] for end in ("low", "high"))
    assert f"[{low:.1f}, {high:.1f}]" in shown
    capsys.readouterr()
    collect([*words, "--by", "group", "--columns", "raw_reward", "--format", "markdown"])
    lines = capsys.readouterr().out.splitlines()
    assert "| policy | group | reward (wage) ↑ |" in lines
    assert sum(line.startswith("| Uniform random | ") for line in lines) == 3
    assert "**" not in "".join(lines)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gredy"], r"'gredy' names no setting .*\(did you mean 'greedy'\?\); choose one of 'Unif"),
        (["greedy", "--each"], "--each: not allowed with argument --against"),
        (["greedy", "--columns", "cost"], r"column 'cost' \(did you mean 'cost_per_pick'\?\)"),
        (["greedy", "--policies", "greedy"], "no run has policy=greedy"),
    ],
)
def test_wrong_baselines(folder, words, message):
    with pytest.raises(FairbanditError, match=message):
        collect([str(folder), "--against", *words])

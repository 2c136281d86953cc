"""What became of each group's picks, from round logs, against plain loops over their rows."""

import re
from typing import Any

import numpy as np
import pytest

import fairbandit
from fairbandit import FairbanditError
from fairbandit.cli.collect import collect
from tests.environments.data import arguments, people, write
from tests.figures.conftest import sweep


def plain(runs: Any, group: str, picks: int) -> Any:
    """Each measure of a group's picks, (replicas of all runs, 6)."""
    mean, std = np.mean(people()["wage"]), np.std(people()["wage"])
    rows = runs.rounds().merge(runs.table[["folder", "seed"]], on="folder")
    found = []
    for _, of in rows.groupby(["seed", "replica"]):
        own = list[tuple[float, ...]]()
        for _, decision in of.groupby("round"):
            best = (decision.fair_regret.max() + decision["rank"].sum()) / picks
            most = (decision.standard_regret.max() + decision.expected_reward.sum()) / picks
            for row in decision[decision.group == group].itertuples():
                of_unit = mean + std * row.reward, std * (most - row.expected_reward)
                own.append((row.reward, row.rank, best - row.rank, *of_unit))
        means = np.mean(own, axis=0) if own else np.full(5, np.nan)
        found.append([len(own) / len(of), *means])
    return np.array(found)


@pytest.mark.parametrize(("name", "picks"), [("simulation", 1), ("table", 2)])
def test_columns_of_groups_are_means_over_their_picks(tmp_path, name, picks, capsys):
    world, names = {"name": name}, ["share", "reward", "rank", "fair_regret"]
    if name == "table":
        path = write(tmp_path / "people.csv", people())
        world, of_unit = arguments(path, pool="random"), ["raw_reward", "cost_per_pick"]
        names += of_unit
    for seed in range(2):
        sweep(tmp_path / str(seed), world, ["uniform"], seed=seed, rounds=15, picks=picks)
    runs = fairbandit.load(tmp_path)
    (row,) = runs.pooled(by="group").to_dict("records")
    assert not [column for column in runs.pooled() if ":" in column]
    assert len([column for column in row if ":" in column]) == 5 * len(names) * len(runs[0].groups)
    for group in runs[0].groups:
        right = plain(runs, group, picks)
        for at, measure in enumerate(names):
            values = right[~np.isnan(right[:, at]), at]
            assert row[f"{measure}:{group}_n"] == len(values)
            assert row[f"{measure}:{group}_mean"] == pytest.approx(values.mean(), abs=1e-12)
            assert row[f"{measure}:{group}_std"] == pytest.approx(values.std(ddof=1))
    collect([str(tmp_path), "--by", "group"])
    shown = capsys.readouterr().out
    assert len(re.findall(r"^ uniform", shown, re.MULTILINE)) % len(runs[0].groups) == 0
    collect([str(tmp_path), "--by", "group", "--columns", "rank"])
    assert "reward" not in (printed := capsys.readouterr().out)
    assert "rank ↑" in printed
    with pytest.raises(
        FairbanditError, match=r"unknown column by group 'fair_regrets' .*share, re"
    ):
        collect([str(tmp_path), "--by", "group", "--columns", "fair_regrets"])
    with pytest.raises(FairbanditError, match="by: expected 'group'"):
        runs.pooled(by="sex")  # type: ignore[arg-type]

"""Sampled rewards are those of the round logs, of uniform picks if there are any."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from fairbandit.results import sampled


def expected(folder: Path, policies: Sequence[str], group: int) -> Any:
    tables = [pq.read_table(folder / policy / "rounds").to_pydict() for policy in policies]
    pairs = [pair for rows in tables for pair in zip(rows["group"], rows["reward"], strict=True)]
    return np.sort([reward for code, reward in pairs if code == group])


def check(found: Any, rewards: Any) -> None:
    shares = np.searchsorted(rewards, found.values, side="right") / len(rewards)
    np.testing.assert_allclose(found.cdf, shares)


def test_rewards_of_uniform_picks(scene, simulated):
    for code, found in enumerate(sampled.sampled_rewards(scene.runs)):
        check(found, expected(simulated, ["uniform"], code))


def test_rewards_of_all_picks(scene, simulated):
    others = [run for run in scene.runs if run.policy != "uniform"]
    found = sampled.sampled_rewards(others)[3]
    check(found, expected(simulated, ["greedy", "fair_greedy"], 3))


def test_of_long_logs_every_few_rounds_are_read(scene, simulated, monkeypatch):
    monkeypatch.setattr(sampled, "MOST_SAMPLES", 250)  # of 400 rounds of 3 replicas
    rows = pq.read_table(simulated / "uniform" / "rounds").to_pydict()
    kept = [
        reward
        for number, code, reward in zip(rows["round"], rows["group"], rows["reward"], strict=True)
        if code == 0 and number % 5 == 0
    ]
    check(sampled.sampled_rewards(scene.runs)[0], np.sort(kept))


def test_a_group_that_is_never_picked_has_none(scene):
    (optimal,) = [run for run in scene.runs if run.policy == "greedy"]
    counts, _ = optimal.by_group("selected")
    found = sampled.sampled_rewards([optimal])
    assert [one is None for one in found] == [count == 0 for count in counts]

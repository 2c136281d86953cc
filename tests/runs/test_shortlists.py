"""What a run of shortlists leaves: rows, sums, figures, all by a literal loop."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from fairbandit.figures.draw import compose
from fairbandit.policy.build import build_policy
from fairbandit.runs import read_scenes
from fairbandit.runs.execute import execute
from fairbandit.streams import Streams
from tests import literal, support
from tests.notions import test_shortlists as shortlists

ROUNDS, SEED, M = shortlists.ROUNDS, 3, shortlists.M

NAMED = ["fair_greedy", "greedy", "oful", "uniform", "fairx_rank", "minimum_pull", "interval_chain"]


def literally(name: str, world: Any) -> list[list[int]]:
    """Every decision of a policy."""
    if name in shortlists.CASES:
        return shortlists.literal(name, world, SEED)[0]
    truth = literal.Truth(np.array(world.theta), lambda group, value: np.nan)
    draws = support.draws(world, ROUNDS, SEED)
    return literal.play(name, draws, truth, picks=M, exploration=world.exploration).tolist()


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven policies with three picks of the four groups of the simulation."""
    folder = tmp_path_factory.mktemp("sweep")
    for name in NAMED:
        make = (
            shortlists.CASES[name][0] if name in shortlists.CASES else partial(build_policy, name)
        )
        policy = make().describe()
        config = {"policy": policy, "environment": {"name": "simulation"}, "rounds": ROUNDS}
        execute({**config, "replicas": 1, "seed": SEED, "picks": M}, folder / name, progress=False)
    return folder


@pytest.mark.parametrize("name", NAMED)
def test_rows_and_sums_are_those_of_the_literal_loop(sweep: Path, name: str) -> None:
    world = support.environment("simulation")
    picks = np.array(literally(name, world))
    world.bind(Streams(SEED, [0]))
    pools = world.pools(1, ROUNDS)
    rows = pd.read_parquet(sweep / name / "rounds")
    assert rows["round"].tolist() == np.arange(1, ROUNDS + 1).repeat(M).tolist()
    assert rows["slot"].tolist() == [*range(M)] * ROUNDS
    assert rows["action"].tolist() == picks.ravel().tolist()
    for column, values in {
        "reward": pools.rewards,
        "expected_reward": pools.expected,
        "rank": pools.ranks,
    }.items():
        own = np.take_along_axis(values[0].numpy(), picks, 1)
        np.testing.assert_array_equal(rows[column], own.ravel())
    ranks = pools.ranks[0].numpy()
    lost = np.sort(ranks, 1)[:, -M:].sum(1) - np.take_along_axis(ranks, picks, 1).sum(1)
    np.testing.assert_allclose(rows["fair_regret"][rows["slot"] == 0], lost, atol=1e-12)
    assert rows["fair_regret"][rows["slot"] > 0].isna().all()
    (run,) = read_scenes([sweep / name])[0].runs
    assert run.spreads["fair_regret"]["mean"] == pytest.approx(lost.sum())
    assert run.curves["fair_regret", None].values[:, -1] == pytest.approx([lost.sum()])
    selected = np.bincount(picks.ravel(), minlength=4)  # a place is a group
    assert run.by_group("selected")[0].tolist() == selected.tolist()
    assert run.by_group("selection_rate")[0].tolist() == (selected / ROUNDS).tolist()


def test_figures_know_how_many_are_picked(sweep: Path) -> None:
    (scene,) = read_scenes([sweep])
    share, *_ = compose("selection", scene).axes
    (line,) = [line for line in share.lines if line.get_label() == "_3/K"]
    assert np.asarray(line.get_ydata()).tolist() == [75, 75]


@pytest.mark.parametrize("picks", [3, 6])
def test_empty_slots_have_no_rows(config: Any, tmp_path: Path, picks: int) -> None:
    """A pool of four is taken whole by six picks."""
    config |= {"rounds": 600, "picks": picks, "metrics": {"gap": "parity_gap"}}
    execute(config, tmp_path)
    rows = pd.read_parquet(tmp_path / "rounds")
    assert len(rows) == 600 * 3 * min(picks, 4)
    if picks == 6:
        assert rows["fair_regret"].sum() == pytest.approx(0, abs=1e-9)
        assert (rows["propensity"] == 1).all()
        assert torch.equal(
            torch.tensor(rows["gap"].dropna().to_numpy()), torch.zeros(1800).double()
        )

"""What a run of shortlists leaves: rows, sums, figures, all by a literal loop."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairbandit.figures.draw import compose
from fairbandit.runs.execute import execute
from fairbandit.runs.scenes import read_scenes
from fairbandit.streams import Streams
from tests import literal, support

ROUNDS, SEED, M = 300, 3, 3


def test_rows_and_sums_are_those_of_the_literal_loop(tmp_path: Any) -> None:
    """Three of four are picked, and what they lose is the best three ranks minus theirs."""
    parts = {"policy": {"name": "fair_greedy"}, "environment": {"name": "simulation"}}
    execute({**parts, "rounds": ROUNDS, "replicas": 1, "seed": SEED, "picks": M}, tmp_path)
    world: Any = support.environment("simulation")
    truth = literal.Truth(np.array(world.theta), lambda group, value: np.nan)
    draws = support.draws(world, ROUNDS, SEED)
    exploration = world.exploration
    picks = literal.play("fair_greedy", draws, truth, picks=M, exploration=exploration)
    world.bind(Streams(SEED, [0]))
    pools = world.pools(1, ROUNDS)
    rows = pd.read_parquet(tmp_path / "rounds")
    assert rows["round"].tolist() == np.arange(1, ROUNDS + 1).repeat(M).tolist()
    assert rows["slot"].tolist() == [*range(M)] * ROUNDS
    assert rows["action"].tolist() == picks.ravel().tolist()
    columns = {"reward": pools.rewards, "expected_reward": pools.expected, "rank": pools.ranks}
    for column, values in columns.items():
        own = np.take_along_axis(values[0].numpy(), picks, 1)
        np.testing.assert_array_equal(rows[column], own.ravel())
    ranks = pools.ranks[0].numpy()
    lost = np.sort(ranks, 1)[:, -M:].sum(1) - np.take_along_axis(ranks, picks, 1).sum(1)
    np.testing.assert_allclose(rows["fair_regret"][rows["slot"] == 0], lost, atol=1e-12)
    assert rows["fair_regret"][rows["slot"] > 0].isna().all()
    (scene,) = read_scenes([tmp_path])
    (run,) = scene.runs
    assert run.spreads["fair_regret"]["mean"] == pytest.approx(lost.sum())
    assert run.curves["fair_regret", None].values[:, -1] == pytest.approx([lost.sum()])
    selected = np.bincount(picks.ravel(), minlength=4)  # a place is a group
    assert run.by_group("selected")[0].tolist() == selected.tolist()
    assert run.by_group("selection_rate")[0].tolist() == (selected / ROUNDS).tolist()
    share, *_ = compose("selection", scene).axes
    (line,) = [line for line in share.lines if line.get_label() == "_3/K"]
    assert np.asarray(line.get_ydata()).tolist() == [75, 75]


def test_empty_slots_have_no_rows(config: Any, tmp_path: Any) -> None:
    """A pool of four is taken whole by six picks."""
    execute({**config, "picks": 6, "metrics": {"gap": "parity_gap"}}, tmp_path)
    rows = pd.read_parquet(tmp_path / "rounds")
    assert len(rows) == 100 * 3 * 4
    assert rows["fair_regret"].sum() == pytest.approx(0, abs=1e-9)
    assert (rows["propensity"] == 1).all()
    assert rows["gap"].dropna().tolist() == [0.0] * 300

"""What a run leaves behind, and what it refuses."""

import errno
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from filelock import FileLock

from fairbandit import Engine, Policy, build
from fairbandit.environments import Environment, Pools, Simulation
from fairbandit.errors import FairbanditError
from fairbandit.figures.draw import compose, general
from fairbandit.registry import _registry
from fairbandit.runs import Callback, pooled
from fairbandit.runs.execute import execute
from fairbandit.runs.scenes import read_scenes
from fairbandit.runs.tables import tidy
from fairbandit.streams import Streams
from tests.killing import outcome
from tests.runs.test_curves import scalars

COLUMNS = ["replica", "round", "action", "group", "reward", "expected_reward", "rank"]
COLUMNS += ["standard_regret", "fair_regret", "propensity"]


def read_json(path: Path) -> dict[str, Any]:
    contents: dict[str, Any] = json.loads(path.read_text(), parse_constant=pytest.fail)
    return contents


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "rounds").iterdir()}


def test_what_a_run_leaves(config, tmp_path):
    returned = execute(config, tmp_path)
    summary = read_json(tmp_path / "summary.json")
    assert summary == returned
    assert set(summary) == {
        *("policy", "environment", "rounds", "replicas", "seed", "groups", "config", "knows_truth"),
        *("group_feature", "selection_rate", "selected", "received", "seconds", "versions"),
        *("metrics", "identity", "files", "checksum"),
    }
    assert list(summary["metrics"]) == ["standard_regret", "fair_regret"]
    assert (summary["policy"], summary["environment"]) == ("fair_greedy", "simulation")
    assert (summary["rounds"], summary["replicas"], summary["seed"]) == (100, 3, 1)
    assert summary["groups"] == ["0", "1", "2", "3"]
    estimator = {"name": "ridge", "regularization": 0.1, "noise": 1e-8}
    assert summary["config"]["policy"]["estimator"] == estimator
    assert summary["config"]["environment"]["cdf"] == "exact"
    assert summary["group_feature"] is True  # candidate a's last feature is bias·a
    assert {"fairbandit", "python", "torch", "numpy"} <= set(summary["versions"])
    table = pq.read_table(tmp_path / "rounds")
    assert table.column_names == COLUMNS
    assert [str(kind) for kind in table.schema.types] == ["int64"] * 4 + ["double"] * 6
    rows = {name: np.array(column) for name, column in table.to_pydict().items()}
    np.testing.assert_array_equal(rows["round"], np.repeat(np.arange(1, 101), 3))
    np.testing.assert_array_equal(rows["replica"], np.tile([0, 1, 2], 100))
    policy, environment = build(config["policy"]), build(config["environment"])
    assert isinstance(policy, Policy)
    assert isinstance(environment, Environment)
    engine = Engine(policy, environment, rounds=100, seed=1, replicas=range(3))
    played = list(engine.play())
    attributes = ["actions", "groups", "rewards", "expected", "ranks"]
    attributes += ["standard_regret", "fair_regret", "propensities"]
    for name, attribute in zip(COLUMNS[2:], attributes, strict=True):
        expected = torch.cat([getattr(piece, attribute) for piece in played], 1)
        np.testing.assert_array_equal(rows[name], expected.T.reshape(-1).numpy())


def test_a_group_never_received_has_no_rate_and_one_replica_no_spread(
    config, tmp_path, monkeypatch
):
    pools = Simulation._pools

    def drawn(self: Simulation, first: int, count: int) -> Pools:
        made = pools(self, first, count)
        return replace(made, groups=made.groups.where(made.groups != 3, -1))

    monkeypatch.setattr(Simulation, "_pools", drawn)
    monkeypatch.setattr(Simulation, "rounds", 70)
    execute({**config, "replicas": 1, "rounds": None}, tmp_path)
    summary = read_json(tmp_path / "summary.json")
    assert summary["rounds"] == 70
    assert summary["selection_rate"]["3"] == {"mean": None, "std": None}
    assert summary["received"]["3"] == {"mean": 0.0, "std": None}
    for metric in summary["metrics"].values():
        assert metric["mean"] is not None
        assert metric["std"] is None
    shown = scalars(tmp_path)
    assert shown["fair_regret/lower"] == shown["fair_regret/upper"]


def test_without_a_truth_all_that_needs_one_is_null(config, tmp_path, monkeypatch):
    class Hidden(Simulation):
        """A simulation that keeps its truth to itself."""

        def bind(self, streams: Streams) -> None:
            self.streams, self.truth = streams, None
            self.known = Simulation()
            self.known.bind(streams)

        def reward_distribution(self, group: int) -> None:
            return None

        def _pools(self, first: int, count: int) -> Pools:
            return self.known._pools(first, count)

    config["metrics"] = {"again": "fair_regret"}
    monkeypatch.setitem(_registry["environment"], "simulation", Hidden)
    execute(config, tmp_path)
    summary = read_json(tmp_path / "summary.json")
    unknown = {"mean": None, "std": None, "reduce": "sum", "lower_is_better": True}
    for column in ("fair_regret", "standard_regret", "again"):
        assert summary["metrics"][column] == unknown
    rows = pq.read_table(tmp_path / "rounds")
    needs = {"expected_reward", "rank", "standard_regret", "fair_regret", "again"}
    nulls = {name: rows.column(name).null_count for name in rows.column_names}
    assert nulls == {name: 300 * (name in needs) for name in rows.column_names}
    assert {tag.partition("/")[0] for tag in scalars(tmp_path)} == {"selection_rate"}
    (scene,) = read_scenes([tmp_path])
    assert general(scene) == ["selection", "counts", "metrics"]
    texts = [text.get_text() for axes in compose("overview", scene).axes for text in axes.texts]
    assert texts == ["not known"] * 3
    table = pooled(tidy(scene.runs[0].runs)).set_index("measure")
    assert table.loc["fair_regret", "n"] == 0
    assert np.isnan(table.loc["fair_regret", "mean"])


def test_the_same_command_gives_the_same_bytes(config, tmp_path):
    execute(config, tmp_path / "a")
    execute(config, tmp_path / "b")
    assert outcome(tmp_path / "a") == outcome(tmp_path / "b")
    execute({**config, "seed": 2}, tmp_path / "c")
    assert files(tmp_path / "a") != files(tmp_path / "c")
    other = {**config, "seed": 5, "environment": {"name": "simulation", "noise": 1}}
    with pytest.raises(FairbanditError, match="already holds a finished run") as caught:
        execute(other, tmp_path / "a")
    assert "environment.noise: 2.0 there, 1.0 here; seed: 1 there, 5 here." in str(caught.value)
    assert outcome(tmp_path / "a") == outcome(tmp_path / "b")


def test_batches_of_replicas_change_nothing_but_the_files(config, tmp_path, monkeypatch):
    whole = execute(config, tmp_path / "whole")
    monkeypatch.setattr("fairbandit.runs.execute.BUDGET", 1)
    parts = execute(config, tmp_path / "parts")
    assert len(files(tmp_path / "parts")) == 3
    for key in ("metrics", "selection_rate", "received"):
        assert parts[key] == whole[key]
    order = [("replica", "ascending"), ("round", "ascending")]
    first, second = (
        pq.read_table(tmp_path / name / "rounds").sort_by(order) for name in ("whole", "parts")
    )
    assert first.equals(second)
    curves, merged = scalars(tmp_path / "whole"), scalars(tmp_path / "parts")
    assert set(curves) == set(merged)
    for tag, points in curves.items():
        assert merged[tag] == pytest.approx(points, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"threads": 10**20}, "threads must be at most 2,147,483,647, got 1"),
        ({"device": "abacus"}, "device 'abacus' cannot be used here: .*; usable devices: cpu"),
        ({"metrics": ["fair_regret"]}, "metrics must map columns to metrics"),
        ({"metrics": {"rank": "fair_regret"}}, "metrics: 'rank' cannot be a column; expected at"),
        ({"policy": {"name": "simulation"}}, "expected a policy, got {'name'"),
    ],
)
def test_bad_settings(config, tmp_path, changed, message):
    with pytest.raises(FairbanditError, match=message.replace("(", r"\(")):
        execute({**config, **changed}, tmp_path / "run")
    assert not list(tmp_path.rglob("*.parquet*"))


def test_a_finished_run_is_served_where_nothing_can_be_written(config, tmp_path, monkeypatch):
    refused = pytest.raises(FairbanditError, match="another run is writing")
    with FileLock(tmp_path / ".lock"), refused:
        execute(config, tmp_path)
    summary = execute(config, tmp_path)

    def acquire(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "read-only")

    monkeypatch.setattr(FileLock, "acquire", acquire)
    assert execute(config, tmp_path) == summary
    with pytest.raises(OSError, match="read-only"):
        execute(config, tmp_path / "other")


def test_rows_are_not_written_where_a_link_leads(config, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "rounds").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FairbanditError, match="rounds is a link to"):
        execute(config, tmp_path / "run")
    assert not list((tmp_path / "elsewhere").iterdir())


def test_an_error_leaves_nothing_half_written_and_the_folder_can_be_used_again(config, tmp_path):
    seen, before = [], torch.get_num_threads()

    class Breaks(Callback):
        def on_rounds(self, t, means):
            seen.append(torch.get_num_threads())
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        execute({**config, "threads": 2}, tmp_path, callbacks=[Breaks()])
    assert (seen, torch.get_num_threads()) == ([2], before)
    assert not files(tmp_path)
    assert not (tmp_path / "summary.json").exists()
    (tmp_path / "rounds" / "part-000009-000000001.parquet").write_text("of a killed run")
    execute(config, tmp_path)
    assert list(files(tmp_path)) == ["part-000000-000000001.parquet"]
    assert len(list(tmp_path.glob("events*"))) == 1
    assert not (tmp_path / ".lock").exists()

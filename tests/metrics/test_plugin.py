"""A metric in a file of its own appears wherever a run is recorded, and nothing else names it."""

import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from fairbandit.errors import FairbanditError
from fairbandit.figures.compose import compose, general
from fairbandit.plugins import load_plugins
from fairbandit.results import read_scenes
from fairbandit.run.execute import execute
from tests import support
from tests.run.test_checkpoint import _often, cut_off
from tests.run.test_curves import scalars

_often = _often  # a checkpoint after every piece

METRICS = {"share": "group_share", "share_of_2": {"name": "group_share", "group": 2}}


@pytest.fixture(autouse=True)
def _plugin(clean, monkeypatch):
    folder = support.REPOSITORY / "tests" / "plugins" / "metrics"
    monkeypatch.setenv("FAIRBANDIT_PLUGINS", str(folder))


def shares(folder: Path, group: int) -> Any:
    """The share of a group among the picks up to each round, (B, T), counted from the rows."""
    rows = pq.read_table(folder / "rounds").to_pydict()
    order = np.lexsort([rows["round"], rows["replica"]])
    hits = (np.array(rows["group"])[order] == group).reshape(max(rows["replica"]) + 1, -1)
    return hits.cumsum(1) / np.arange(1, hits.shape[1] + 1)


def column(folder: Path, name: str) -> Any:
    rows = pq.read_table(folder / "rounds").to_pydict()
    order = np.lexsort([rows["round"], rows["replica"]])
    return np.array(rows[name])[order].reshape(max(rows["replica"]) + 1, -1)


def test_everywhere(command, tmp_path):
    asked = "metrics={share: group_share, share_of_2: {name: group_share, group: 2}}"
    code, out, err = command(asked, "rounds=300", "replicas=4", "hydra.run.dir=runs/one")
    assert (code, err) == (0, "")
    run = tmp_path / "runs" / "one"
    expected = {"share": shares(run, 0), "share_of_2": shares(run, 2)}
    summary = json.loads((run / "summary.json").read_text())
    assert list(summary["metrics"]) == list(expected)
    assert summary["config"]["metrics"]["share"] == {"name": "group_share", "group": 0}
    assert pq.read_schema(next(run.glob("rounds/*"))).names[-3:] == ["propensity", *expected]
    curves = scalars(run)
    command("collect", "runs", "--out", "runs.csv")
    (collected,) = pyarrow.csv.read_csv("runs.csv").to_pylist()
    (scene,) = read_scenes([run])
    drawn = compose("metrics", scene).axes
    for (name, values), axes in zip(expected.items(), drawn, strict=True):
        np.testing.assert_allclose(column(run, name), values, rtol=1e-12)
        last, found = values[:, -1], summary["metrics"][name]
        assert (found["reduce"], found["lower_is_better"]) == ("last", False)
        assert found["mean"] == pytest.approx(last.mean())
        assert found["std"] == pytest.approx(last.std(ddof=1))
        assert f"{name} " in out
        assert collected[f"{name}_mean"] == pytest.approx(last.mean())
        assert collected[f"{name}_std"] == pytest.approx(last.std(ddof=1))
        assert curves[f"{name}/mean"] == pytest.approx(dict(enumerate(values.mean(0), 1)), abs=1e-6)
        assert curves[f"{name}/upper"][300] == pytest.approx(last.mean() + last.std(ddof=1))
        (line,) = axes.get_lines()
        rounds, means = np.asarray(line.get_xydata()).T
        np.testing.assert_allclose(means, values.mean(0)[rounds.astype(int) - 1])
        assert axes.get_ylabel() == f"{name.replace('_', ' ')}\n(mean ± 1 std)"
    assert "metrics" in general(scene)
    assert not plt.get_fignums()


def test_a_resumed_run_gives_the_same_bytes(config, tmp_path, monkeypatch):
    load_plugins()
    config |= {"rounds": 600, "metrics": METRICS}
    whole = execute(config, tmp_path / "whole")
    cut_off(config, tmp_path / "cut", 2, monkeypatch)
    resumed = execute(config, tmp_path / "cut")
    assert resumed["files"] == whole["files"]
    assert resumed["metrics"] == whole["metrics"]
    assert scalars(tmp_path / "cut") == scalars(tmp_path / "whole")


def test_another_metric_makes_another_run(config, tmp_path):
    load_plugins()
    summary = execute({**config, "metrics": METRICS}, tmp_path)
    assert list(summary["identity"]["plugins"]) == ["group_share.py"]
    assert execute({**config, "metrics": METRICS}, tmp_path) == summary
    message = r"metrics\.share_of_2\.group: 2 there, 1 here"
    other = {**METRICS, "share_of_2": {"name": "group_share", "group": 1}}
    with pytest.raises(FairbanditError, match=message):
        execute({**config, "metrics": other}, tmp_path)


def test_runs_with_and_without_a_metric_share_a_figure(config, tmp_path):
    load_plugins()
    execute({**config, "metrics": {"share": "group_share"}}, tmp_path / "with")
    execute({**config, "seed": 2}, tmp_path / "without")
    (scene,) = read_scenes([tmp_path])
    (axes,) = compose("metrics", scene).axes
    lengths = {line.get_label(): len(np.asarray(line.get_xydata())) for line in axes.get_lines()}
    assert sorted(lengths.values()) == [0, 100]
    with pytest.raises(FairbanditError, match="has a metric beside both regrets"):
        compose("metrics", type(scene)(scene.name, tuple(r for r in scene.runs if "2" in r.label)))

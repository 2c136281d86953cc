"""A metric in a file of its own appears wherever a run is recorded, and nothing else names it."""

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from fairbandit.figures.draw import general
from fairbandit.runs.scenes import read_scenes
from tests import support
from tests.runs.test_curves import scalars


@pytest.fixture(autouse=True)
def _plugin(clean, monkeypatch):
    folder = support.REPOSITORY / "tests" / "plugins" / "metrics"
    monkeypatch.setenv("FAIRBANDIT_PLUGINS", str(folder))


def test_everywhere(command, tmp_path):
    """The log, the summary, tables, curves, the dashboard and figures."""
    asked = "metrics={of_0: group_share, share_of_2: {name: group_share, group: 2}}"
    code, out, err = command(asked, "rounds=300", "replicas=4", "hydra.run.dir=runs/one")
    assert (code, err) == (0, "")
    run = tmp_path / "runs" / "one"
    rows = pq.read_table(run / "rounds").sort_by([("replica", "ascending"), ("round", "ascending")])
    summary, shown = json.loads((run / "summary.json").read_text()), scalars(run)
    command("collect", "runs", "out=runs.csv")
    collected = pd.read_csv("runs.csv").set_index("measure")["mean"]
    (scene,) = read_scenes([run])
    (curves,) = (one.curves for one in scene.runs)
    for name, group in (("of_0", 0), ("share_of_2", 2)):
        hits = rows["group"].to_numpy().reshape(4, 300) == group
        values = hits.cumsum(1) / np.arange(1, 301)
        last, found = values[:, -1], summary["metrics"][name]
        np.testing.assert_allclose(rows[name].to_numpy().reshape(4, 300), values, rtol=1e-12)
        assert (found["reduce"], found["lower_is_better"]) == ("last", False)
        assert found["mean"] == pytest.approx(last.mean())
        assert found["std"] == pytest.approx(last.std(ddof=1))
        assert f"{name.replace('_', ' ')} " in out
        assert collected[name] == pytest.approx(last.mean())
        np.testing.assert_allclose(
            curves[name, None].values, values[:, curves[name, None].rounds - 1], rtol=1e-6
        )
        assert shown[f"{name}/mean"][300] == pytest.approx(last.mean(), abs=1e-6)
        assert shown[f"{name}/upper"][300] == pytest.approx(last.mean() + last.std(ddof=1))
    assert "metrics" in general(scene)

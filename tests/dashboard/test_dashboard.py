"""The dashboard: names, pooled curves and what TensorBoard serves."""

import json
import math
import re
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from urllib.request import urlopen

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.metadata import (
    SESSION_START_INFO_TAG,
    parse_session_start_info_plugin_data,
)

from fairbandit.cli.dashboard import SINGLE, write_pooled
from fairbandit.policy.build import policy_label
from fairbandit.runs import Run, read_runs
from fairbandit.runs.execute import execute
from tests.dashboard.conftest import POLICIES, wait_for

GREEDY = {"name": "greedy", "split": "halves", "estimator": "ridge", "rank": "identity"}
CONFIG: dict[str, Any] = {
    **{"policy": GREEDY, "environment": {"name": "simulation"}},
    **{"rounds": 5, "replicas": 2, "seed": 0},
}
STRICT = CONFIG | {"policy": GREEDY | {"estimator": {"name": "ridge", "noise": 0.0}}}
QUIET = CONFIG | {"environment": {"name": "simulation", "noise": 0.5}}


@pytest.fixture(scope="module")
def played(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("played")
    execute(CONFIG, place / "greedy-0")
    execute(CONFIG | {"seed": 1}, place / "greedy-1")
    execute(STRICT, place / "strict")
    execute(QUIET, place / "quiet")
    return place


def answer(address: str, path: str) -> Any:
    with urlopen(f"{address.partition('?')[0]}data/{path}") as response:
        return json.load(response)


def test_names_say_what_differs(played, tmp_path):
    write_pooled(read_runs([played]), tmp_path)
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("pooled/*/*")} == {
        f"pooled/simulation, environment.noise={noise}/Greedy, split=halves{own}"
        for noise, others in (
            (0.5, [""]),
            (2.0, [", estimator.noise=0.0", ", estimator.noise=1e-08"]),
        )
        for own in others
    }


@pytest.mark.parametrize("name", ["..", "../..", "", "a/../../../b", "~", "\n\x1b[2J", "é"])
def test_names_from_data_make_no_path(played, tmp_path, name):
    logdir = tmp_path / "parent" / "logdir"
    logdir.mkdir(parents=True)
    (run,) = read_runs([played / "strict"])
    summary = {**run.summary, "policy": name, "environment": name}
    hostile = Run(run.folder, summary, name)
    write_pooled([hostile, hostile], logdir)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == list(
        logdir.glob("pooled/*/*/events*")
    )
    for path in logdir.rglob("*"):
        assert re.fullmatch(r"[\w=., ()[\]{}…-]+", path.name)


def test_a_list_in_a_name_keeps_its_brackets_and_signs(played, tmp_path):
    (run,) = read_runs([played / "strict"])
    config = {**run.summary["config"]}
    config["environment"] = {**config["environment"], "theta": [1.0, -2.0]}
    other = Run(run.folder, {**run.summary, "config": config}, "strict")
    assert any("theta=[1.0, -2.0]" in name for name in write_pooled([run, other], tmp_path))


def test_bands_are_those_of_all_replicas(played, tmp_path):
    runs = read_runs([played / "greedy-0", played / "greedy-1"])
    write_pooled(runs, tmp_path)
    (name,) = tmp_path.glob("pooled/simulation/*")
    written = EventAccumulator(str(name)).Reload()
    assert '"seed"' not in written.Tensors("config")[0].tensor_proto.string_val[0].decode()
    for column in ("fair_regret", "standard_regret"):
        tables = [run.curves[run.curves["measure"] == column] for run in runs]
        finals = np.concatenate([table[table["round"] == 5]["value"] for table in tables])
        last = written.Scalars(f"{column}/upper")[-1]
        assert last.step == 5
        assert last.value == pytest.approx(finals.mean() + finals.std(ddof=1), rel=1e-5)


def test_hparams_have_a_row_for_each_setting_and_its_final_means(played, tmp_path):
    write_pooled(read_runs([played]), tmp_path)
    shown = {}
    for name in tmp_path.glob("pooled/*/*"):
        written = EventAccumulator(str(name)).Reload()
        proto = written.SummaryMetadata(SESSION_START_INFO_TAG).plugin_data.content
        values = parse_session_start_info_plugin_data(proto).hparams
        shown[name] = {
            key: getattr(value, str(value.WhichOneof("kind"))) for key, value in values.items()
        }
        assert {"standard_regret/mean", "fair_regret/mean"} <= {*written.Tags()["scalars"]}
    shared = {"environment": "simulation", "policy": "Greedy", "split": "halves"}
    assert sorted(shown.values(), key=lambda row: sorted(row.items())) == [
        {**shared, "environment.noise": 0.5},
        *({**shared, "environment.noise": 2.0, "estimator.noise": n} for n in (0.0, 1e-8)),
    ]


# the values of a key, and the cells of its column
COLUMNS: dict[str, tuple[list[Any], list[Any]]] = {
    "numbers and null": ([None, 1.1, 2], [None, 1.1, 2.0]),
    "truth values and null": ([True, None, False], [True, None, False]),
    "numbers and a list": ([[1, 2], None, 2.0], ["[1, 2]", None, "2.0"]),
    "infinity": ([math.inf, 1.5, 2], ["Infinity", "1.5", "2"]),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_a_column_of_hparams_has_one_type_and_no_null(played, tmp_path, case):
    """So that TensorBoard sorts and filters it; a null is left out of its row."""
    given, cells = COLUMNS[case]
    (run,) = read_runs([played / "strict"])
    runs = []
    for value in given:
        config = {**run.summary["config"], "policy": {**run.summary["config"]["policy"]}}
        config["policy"]["estimator"] = {"name": "ridge", "noise": value}
        runs.append(Run(run.folder, {**run.summary, "config": config}, json.dumps(value)))
    write_pooled(runs, tmp_path)
    found = []
    for name in sorted(tmp_path.glob("pooled/simulation/*")):
        events = EventAccumulator(str(name)).Reload()
        content = events.SummaryMetadata(SESSION_START_INFO_TAG).plugin_data.content
        value = parse_session_start_info_plugin_data(content).hparams.get("noise")
        found.append(getattr(value, str(value.WhichOneof("kind"))) if value else None)
    key = {json.dumps(value): number for number, value in enumerate(cells)}
    assert sorted(found, key=lambda cell: key[json.dumps(cell)]) == cells


@pytest.mark.all
def test_the_server_shows_settings_and_runs(addresses, sweep):
    address = addresses["simulation"]
    assert address.startswith("http://127.0.0.1:")
    assert "#custom_scalars&_smoothingWeight=0&regexInput=%5Epooled/simulation/" in address
    assert "regexInput=^runs/" in unquote(addresses[SINGLE])
    pooled = [f"pooled/simulation/{policy_label(policy)}" for policy in POLICIES]
    own = [f"runs/sweep/{path.name}" for path in sweep.glob("policy*")]
    expected = {*pooled, *own, "runs/sweep/unfinished"}
    assert len(expected) == 3 + 6 + 1
    found = wait_for(lambda: set(answer(address, "runs")), expected.issubset)
    assert found - {"runs/sweep/damaged"} == expected
    shutil.copytree(sweep / "unfinished", sweep / "later")
    assert wait_for(lambda: answer(address, "runs"), lambda runs: "runs/sweep/later" in runs)


def test_the_page_of_an_environment_shows_its_settings_alone(played, tmp_path):
    pages = write_pooled(read_runs([played]), tmp_path)
    names = [path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("pooled/*/*")]
    for environment, address in pages.items():
        query, regex = (part.rpartition("=")[2] for part in address.split("#"))
        assert query == regex
        shown = [name for name in [*names, "runs/strict"] if re.search(unquote(regex), name)]
        assert shown == [name for name in names if name.startswith(f"pooled/{environment}/")]

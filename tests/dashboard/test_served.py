"""The folder that TensorBoard reads: names, links, pooled curves and HParams."""

import re
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
from tensorboard.plugins.hparams import metadata

from fairbandit.cli.dashboard import MOST_LINES, page
from fairbandit.cli.served import ServedRuns
from fairbandit.results import PooledRuns, read_runs
from fairbandit.results.events import pooled_scalars, read_scalars
from fairbandit.run.execute import execute
from fairbandit.run.folder import EVENTS, LOCK, SUMMARY
from fairbandit.run.tensorboard import read_events

RIDGE = {"split": "halves", "estimator": "ridge", "rank": "identity"}
CONFIG: dict[str, Any] = {
    "policy": {"name": "greedy", **RIDGE},
    "environment": {"name": "simulation"},
    "rounds": 5,
    "replicas": 2,
    "seed": 0,
}
STRICT = {**CONFIG, "policy": {**CONFIG["policy"], "estimator": {"name": "ridge", "noise": 0.0}}}
QUIET = {**CONFIG, "environment": {"name": "simulation", "noise": 0.5}}


@pytest.fixture(scope="module")
def played(tmp_path_factory) -> Path:
    """Some runs, to be copied."""
    place = tmp_path_factory.mktemp("played")
    for seed in (0, 1):
        execute({**CONFIG, "seed": seed, "replicas": 3}, place / f"greedy-{seed}")
        execute({**STRICT, "seed": seed, "replicas": 3}, place / f"strict-{seed}")
    execute(QUIET, place / "quiet")
    return place


@pytest.fixture
def runs(tmp_path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def board(runs, tmp_path) -> ServedRuns:
    (tmp_path / "links").mkdir()
    return ServedRuns([runs], tmp_path / "links")


def copy(played: Path, runs: Path, *names: str) -> None:
    for name in names:
        shutil.copytree(played / name, runs / name)


def names(board: ServedRuns) -> set[str]:
    """The names on the board, without the one of the columns of HParams."""
    found = {str(path.parent.relative_to(board.into)) for path in board.into.rglob(EVENTS)}
    return {name for name in found if not name.startswith("hparams-")}


def columns(board: ServedRuns) -> tuple[list[str], list[str]]:
    """The settings and the results that HParams shows."""
    (folder,) = board.into.glob("hparams-*")
    (value,) = (value for event in read_events(folder) for value in event.summary.value)
    shown = metadata.parse_experiment_plugin_data(value.metadata.plugin_data.content)
    return [one.name for one in shown.hparam_infos], [
        one.display_name for one in shown.metric_infos
    ]


def test_names_say_all_that_tells_and_stay_when_runs_are_added(played, runs, board):
    copy(played, runs, "greedy-0")
    board.look()
    assert names(board) == {"single/simulation/greedy, seed=0"}
    copy(played, runs, "greedy-1", "strict-0", "quiet")
    board.look()
    assert names(board) == {
        "pooled/simulation/greedy",
        "pooled/simulation/greedy, noise=0.0",
        "single/simulation/greedy, seed=0",
        "single/simulation/greedy, seed=1",
        "single/simulation/greedy, noise=0.0, seed=0",
        "single/simulation, noise=0.5/greedy, seed=0",
    }
    again = ServedRuns(board.folders, runs.parent / "again")
    again.look()
    assert "single/simulation, noise=2.0/greedy, noise=1e-08, seed=1" in names(again)


def test_a_command_given_twice_is_told_apart_by_its_place(played, runs, board):
    copy(played, runs, "greedy-0")
    shutil.copytree(runs / "greedy-0", runs / "more" / "greedy-0")
    board.look()
    assert names(board) == {
        "single/simulation/greedy, seed=0",
        "single/simulation/greedy, seed=0 (more-greedy-0)",
    }


def test_a_run_keeps_its_name_when_it_is_finished_and_goes_with_its_folder(played, runs, board):
    copy(played, runs, "greedy-0")
    summary = (runs / "greedy-0" / SUMMARY).read_bytes()
    (runs / "greedy-0" / SUMMARY).unlink()
    board.look()
    assert names(board) == {"single/simulation/greedy, seed=0"}
    (runs / "greedy-0" / SUMMARY).write_bytes(summary)
    copy(played, runs, "greedy-1")
    board.look()
    assert len(names(board)) == 3
    (runs / "greedy-1").rename(runs / "greedy-1.old-0123456789ab")
    board.look()
    assert names(board) == {"single/simulation/greedy, seed=0"}


def test_a_run_that_has_written_nothing_yet_is_linked_later(played, runs, board):
    copy(played, runs, "greedy-0")
    (runs / "greedy-0" / SUMMARY).unlink()
    (runs / "greedy-0" / LOCK).touch()
    (events,) = (runs / "greedy-0").glob(EVENTS)
    written = events.read_bytes()
    events.write_bytes(written[:100])
    board.look()
    assert names(board) == set()
    events.write_bytes(written)
    board.look()
    assert names(board) == {"single/simulation/greedy, seed=0"}


def test_what_is_no_run_is_linked_by_its_place(played, runs, board):
    copy(played, runs, "quiet")
    (runs / "sweep" / "figures").mkdir(parents=True)
    (runs / "sweep" / "figures" / EVENTS.replace("*", "1")).touch()
    board.look()
    assert "other/sweep-figures" in names(board)


def test_pooled_curves_are_those_of_all_replicas(played, runs):
    copy(played, runs, "greedy-0", "greedy-1")
    pooled = PooledRuns(tuple(read_runs([runs])))
    found = pooled_scalars(pooled)
    assert list(found) == [1, 2, 3, 4, 5]
    for column, name in (("fair_regret", "fair_pseudo"), ("standard_regret", "standard_pseudo")):
        curve = pooled.curves[column]
        for index, step in enumerate(curve.rounds.tolist()):
            mean, std = found[step][f"{name}_regret/mean"], curve.std[index]
            assert mean == pytest.approx(curve.mean[index], rel=1e-5)
            assert found[step][f"{name}_regret/upper"] == pytest.approx(mean + std, rel=1e-5)
            assert found[step][f"{name}_regret/lower"] == pytest.approx(mean - std, rel=1e-5)
    rates = [pooled.by_group("selection_rate")[0][int(group)] for group in pooled.groups]
    assert [found[5][f"selection_rate/{group}"] for group in pooled.groups] == pytest.approx(rates)
    assert found[5]["parity_gap"] == pytest.approx(max(rates) - min(rates))
    singles = [read_scalars(run)["instantaneous_regret/fair"][3] for run in pooled.runs]
    assert found[3]["instantaneous_regret/fair"] == pytest.approx(np.mean(singles))


def test_a_pooled_run_gains_the_runs_that_finish_later(played, runs, board):
    copy(played, runs, "greedy-0", "greedy-1")
    for seed in (0, 1):
        copy(played, runs, f"strict-{seed}")
        board.look()
    (event,) = (board.into / "pooled/simulation/greedy, noise=0.0").glob(EVENTS)
    first, second = (read_runs([runs / f"strict-{seed}"])[0] for seed in (0, 1))
    last = list(read_events(event.parent))[-1]
    means = {value.tag: value.simple_value for value in last.summary.value}
    both = [run.summary["fair_pseudo_regret"]["mean"] for run in (first, second)]
    assert means["fair_pseudo_regret/mean"] == pytest.approx(np.mean(both), rel=1e-5)


def test_hparams_shows_what_differs_and_means(played, runs, board):
    copy(played, runs, "greedy-0", "greedy-1")
    results = ["fair pseudo-regret", "standard pseudo-regret", "parity gap"]
    results += ["instantaneous regret, fair", "instantaneous regret, standard"]
    board.look()
    assert columns(board) == (["policy", "environment"], results)
    copy(played, runs, "strict-1")
    board.look()
    assert columns(board) == (["policy", "environment", "policy.estimator.noise"], results)
    rows = {}
    for folder in (board.into / "single/simulation").iterdir():
        for event in read_events(folder):
            for value in event.summary.value:
                if value.tag == metadata.SESSION_START_INFO_TAG:
                    content = value.metadata.plugin_data.content
                    row = metadata.parse_session_start_info_plugin_data(content)
                    rows[folder.name] = row.group_name, row.hparams["policy.estimator.noise"]
    assert {name: (group, value.number_value) for name, (group, value) in rows.items()} == {
        "greedy, seed=0": ("simulation/greedy", 1e-8),
        "greedy, seed=1": ("simulation/greedy", 1e-8),
        "greedy, noise=0.0, seed=1": ("simulation/greedy, noise=0.0", 0.0),
    }


def test_the_page_shows_a_dozen_of_every_policy():
    few = {f"pooled/world, n=1/oful, a={n}": "oful" for n in range(MOST_LINES)}
    many = few | {f"pooled/world, n=1/greedy, b={n}": "greedy" for n in range(MOST_LINES)}
    assert shown(few) == list(few)
    assert len(shown(many)) == MOST_LINES
    assert sum("oful" in name for name in shown(many)) == MOST_LINES // 2
    assert page({}) == "#custom_scalars&_smoothingWeight=0"


def shown(runs: dict[str, str]) -> list[str]:
    """Which of some runs, and of others, the page shows."""
    address = page(runs)
    query, regex = (part.rpartition("=")[2] for part in address.split("#"))
    assert query == regex
    others = ["pooled/world, n=2/oful, a=1", "single/world, n=1/oful, a=1, seed=0"]
    return [name for name in [*runs, *others] if re.search(unquote(regex), name)]

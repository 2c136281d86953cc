"""The parts of a run on their own: grids, batches, curves, tables."""

import io
import threading
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table
from safetensors.torch import save_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from fairbandit.metrics import Played
from fairbandit.run import progress, round_log, state
from fairbandit.run.batches import BUDGET, replica_batches
from fairbandit.run.execute import execute
from fairbandit.run.folder import aside, written_aside
from fairbandit.run.progress import run_progress, sweep_progress
from fairbandit.run.round_log import RoundLog
from fairbandit.run.statistics import log_spaced
from fairbandit.run.table import console, named, run_table


@given(st.integers(1, 10**8))
def test_curves_have_at_most_a_thousand_points_with_both_ends(rounds):
    steps = log_spaced(rounds)
    assert steps[0] == 1
    assert steps[-1] == rounds
    assert len(steps) <= 1000
    assert steps == sorted(set(steps))
    if rounds <= 1000:
        assert len(steps) == rounds


@given(st.integers(1, 3000), st.integers(1, 10**7), st.integers(1, 50), st.integers(1, 100))
def test_batches_hold_every_replica_once_within_the_budget(replicas, rounds, places, features):
    made = replica_batches(replicas, rounds=rounds, places=places, features=features)
    assert [b for batch in made for b in batch] == list(range(replicas))
    sizes = [len(batch) for batch in made]
    assert max(sizes) - min(sizes) <= 1
    largest = max(sizes) * rounds * places * (features + 8) * 8
    assert max(sizes) == 1 or largest <= BUDGET


def played(first: int, count: int, replicas: list[int]) -> Played:
    whole = torch.arange(first, first + count).expand(len(replicas), -1)
    values = whole.double()
    regrets = {"standard_regret": values, "fair_regret": values}
    return Played(
        first, replicas, whole, whole, values, values, values, values, regrets, whole[:, :2]
    )


def test_files_and_row_groups_end_on_fixed_multiples_of_the_grid(tmp_path, monkeypatch):
    monkeypatch.setattr(round_log, "FILE_ROWS", 1200)
    monkeypatch.setattr(round_log, "GROUP_ROWS", 600)
    writer = RoundLog(tmp_path, [4, 5])
    for first in range(1, 1201, 128):
        writer.add(played(first, min(128, 1201 - first), [4, 5]))
    writer.finish()
    made = {path.name: pq.ParquetFile(path) for path in sorted(tmp_path.iterdir())}
    firsts = ["part-000004-000000001", "part-000004-000000513", "part-000004-000001025"]
    assert list(made) == [f"{name}.parquet" for name in firsts]
    sizes = [
        [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        for file in made.values()
    ]
    assert sizes == [[512, 512], [512, 512], [352]]


def test_a_file_written_aside_appears_only_when_whole(tmp_path):
    path = tmp_path / "name"
    with written_aside(path) as file:
        file.write(b"all")
        assert not path.exists()
    assert path.read_bytes() == b"all"
    with pytest.raises(ZeroDivisionError), written_aside(path) as file:
        file.write(b"half" * (1 // 0))
    assert [file.name for file in tmp_path.iterdir()] == ["name"]
    assert path.read_bytes() == b"all"


def test_whatever_a_killed_process_left_goes_when_the_file_is_next_written(tmp_path):
    path = tmp_path / "agent.safetensors"
    left = tmp_path / "agent.safetensors.tmp"
    left.mkdir()
    for name in (".tmpA1b2C3", "unfinished"):
        (left / name).write_bytes(b"half")
    with aside(path) as unfinished:
        assert list(unfinished.parent.iterdir()) == []
        assert not list(tmp_path.rglob(path.name))  # nobody takes it for the whole
        unfinished.write_bytes(b"all")
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    left.mkdir()
    (left / "my notes").write_text("kept")
    with pytest.raises(OSError, match="not empty"), aside(path):
        pytest.fail("a folder of someone else's")
    assert (left / "my notes").read_text() == "kept"


def test_the_files_of_a_library_stay_within(tmp_path, monkeypatch):
    """What safetensors writes on its way is in our own folder, whenever the process is killed."""
    seen: set[str] = set()
    path = tmp_path / "checkpoint.safetensors"

    def killed(tensors, file, metadata):
        save_file(tensors, file, metadata)
        seen.update(entry.name for entry in tmp_path.iterdir())
        (file.parent / ".tmpXyZ123").write_bytes(b"half")
        seen.update(entry.name for entry in tmp_path.iterdir())

    monkeypatch.setattr(state, "save_file", killed)
    state.write(state.Packed({"x": torch.ones(3)}), path)
    assert seen == {"checkpoint.safetensors.tmp"}
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("name", ["[red]", "[/x]", "[bold]a[/bold]", ":car:"])
def test_names_are_shown_as_they_are(config, tmp_path, name, capsys):
    summary = execute(config, tmp_path)
    for key in ("selection_rate", "selected", "received"):
        summary[key] = {name: summary[key]["0"]}
    summary |= {"policy": name, "environment": name, "groups": [name]}
    shown = console()
    shown.print(run_table(summary))
    assert f"selection rate, group {name}" in capsys.readouterr().out
    shown.print(named("results", f"outputs/{name}"))
    assert capsys.readouterr().out == f"results  outputs/{name}\n"


def scalars(folder: Path) -> dict[str, dict[int, float]]:
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    return {
        tag: {point.step: point.value for point in events.Scalars(tag)}
        for tag in events.Tags()["scalars"]
    }


def test_curves_in_tensorboard(config, tmp_path):
    summary = execute({**config, "rounds": 1500}, tmp_path)
    curves = scalars(tmp_path)
    regrets = [f"{kind}_pseudo_regret" for kind in ("fair", "standard")]
    tags = {f"{regret}/{line}" for regret in regrets for line in ("mean", "lower", "upper")}
    tags |= {f"instantaneous_regret/{kind}" for kind in ("fair", "standard")} | {"parity_gap"}
    assert set(curves) == tags | {f"selection_rate/{group}" for group in "0123"}
    for regret in regrets:
        mean, std = summary[regret]["mean"], summary[regret]["std"]
        ends = {line: curves[f"{regret}/{line}"][1500] for line in ("mean", "lower", "upper")}
        assert ends == pytest.approx({"mean": mean, "lower": mean - std, "upper": mean + std})
        assert 1 in curves[f"{regret}/mean"]
        assert len(curves[f"{regret}/mean"]) <= 1000
    for group in "0123":
        rate = summary["selection_rate"][group]["mean"]
        assert curves[f"selection_rate/{group}"][1500] == pytest.approx(rate)


def test_one_replica_draws_a_band_without_width(config, tmp_path):
    execute({**config, "replicas": 1}, tmp_path)
    curves = scalars(tmp_path)
    assert curves["fair_pseudo_regret/lower"] == curves["fair_pseudo_regret/upper"]
    assert len(curves["fair_pseudo_regret/mean"]) == 100


def test_batches_of_replicas_merge_into_the_same_curves(config, tmp_path, monkeypatch):
    execute(config, tmp_path / "whole")
    monkeypatch.setattr("fairbandit.run.batches.BUDGET", 1)
    execute(config, tmp_path / "parts")
    whole, parts = scalars(tmp_path / "whole"), scalars(tmp_path / "parts")
    assert set(whole) == set(parts)
    for tag, points in whole.items():
        assert parts[tag] == pytest.approx(points, rel=1e-5, abs=1e-6)


def text_of(table: Table) -> str:
    text = io.StringIO()
    shown = console()
    shown.file, shown.width = text, 200
    shown.print(table)
    return text.getvalue()


def test_tables(config, tmp_path):
    summary = execute(config, tmp_path)
    shown = text_of(run_table(summary))
    assert "fair_greedy" in shown
    assert "±" in shown
    assert "selection rate, group 3" in shown


def test_progress_shows_on_a_terminal_only():
    for terminal in (True, False):
        text = io.StringIO()
        console = Console(file=text, force_terminal=terminal, width=120)
        with run_progress("greedy", 1000, console) as advance:
            advance(500)
        assert ("500/1,000" in text.getvalue()) == terminal


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_of_a_sweep_is_bars_on_a_terminal_and_lines_elsewhere(
    terminal, monkeypatch, capsys
):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    looked = threading.Event()
    counts = iter([3, 3, 1_200])

    def where():
        count = next(counts, None)
        if count is None:
            looked.set()
        return "jobs done", count or 1_200

    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=120)
    with sweep_progress(where, 5_000, console), run_progress("greedy", 800) as advance:
        advance(400)
        assert looked.wait(60)
    assert ("1,200/5,000" in text.getvalue()) == terminal
    assert ("400/800" in text.getvalue()) == terminal
    said = capsys.readouterr().out
    assert said == ("" if terminal else "jobs done 3 of 5,000\njobs done 1,200 of 5,000\n")

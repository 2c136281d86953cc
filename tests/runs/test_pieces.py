"""The parts of a run on their own: batches of replicas, the round log, files, progress."""

import io
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from fairbandit.files.files import written_aside
from fairbandit.metrics import Played
from fairbandit.runs import record, sheets
from fairbandit.runs.execute import BUDGET, replica_batches
from fairbandit.runs.overview import overview
from fairbandit.runs.record import RoundLog
from fairbandit.runs.scenes import pool
from fairbandit.runs.sheets import console, named, progress_bar
from tests.figures.synthetic import saved


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


def test_files_end_on_fixed_multiples_of_the_grid(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "FILE_ROWS", 1200)
    writer = RoundLog(tmp_path, [4, 5], ("standard_regret", "fair_regret"))
    for first in range(1, 1201, 128):
        writer.add(played(first, min(128, 1201 - first), [4, 5]))
    writer.finish()
    made = {path.name: pq.ParquetFile(path) for path in sorted(tmp_path.iterdir())}
    firsts = ["part-000004-000000001", "part-000004-000000513", "part-000004-000001025"]
    assert list(made) == [f"{name}.parquet" for name in firsts]
    assert [file.metadata.num_rows for file in made.values()] == [1024, 1024, 352]


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


@pytest.mark.parametrize("name", ["[/x]", "[bold]a[/bold]:car:"])
def test_names_are_shown_as_they_are(name, capsys):
    shown = console()
    shown.print(overview(pool([saved(name, {"fair_regret": [1.0] * 4}, [name], environment=name)])))
    assert capsys.readouterr().out.count(name) == 3
    shown.print(named("results", f"outputs/{name}"))
    assert capsys.readouterr().out == f"results  outputs/{name}\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_of_a_sweep_shows_its_jobs_and_the_run(terminal, monkeypatch):
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=120)
    monkeypatch.setattr(sheets, "_screen", console)
    run: Any
    with progress_bar("jobs", 5) as advance, progress_bar("greedy", 800) as run:
        run(400)
        advance()
        if terminal:
            run.func.__self__.refresh()
    assert ("1/5" in text.getvalue()) == terminal
    assert ("400/800" in text.getvalue()) == terminal

"""A sweep's table has a row a setting, counts all jobs, and says which have no results."""

import io

import pytest
from rich.table import Table

from fairbandit.cli.outcomes import Outcome, failures_table, sweep_table
from fairbandit.results import SavedRun, read_runs
from fairbandit.run.table import console
from tests.figures.conftest import sweep


def text_of(table: Table) -> str:
    text, shown = io.StringIO(), console()
    shown.file, shown.width = text, 200
    shown.print(table)
    return text.getvalue()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outcomes")
    for seed in (0, 1):
        sweep(folder / str(seed), {"name": "simulation"}, ["greedy"], rounds=8, seed=seed)
    return read_runs([folder])


def test_runs_that_differ_in_their_seed_share_a_row(runs):
    jobs = [Outcome(f"seed-{at}", "finished", run) for at, run in enumerate(runs)]
    alone, both = text_of(sweep_table(jobs[:1])), text_of(sweep_table(jobs))
    assert alone.count("greedy") == both.count("greedy") == 1
    assert "rounds 8, replicas 3" in alone
    assert "rounds 8, runs 2, replicas 6" in both
    assert "All jobs\n" in "\n".join(line.rstrip() for line in both.splitlines())


def test_jobs_without_results_are_listed(runs):
    jobs = [
        Outcome("seed-0", "finished", runs[0]),
        Outcome("seed-1", "skipped", runs[1]),
        Outcome("seed-[3]", "failed", error="an [odd] error"),
        Outcome("seed-4", "unfinished"),
    ]
    assert "All jobs: 1 finished, 1 skipped, 1 failed, 1 unfinished" in text_of(sweep_table(jobs))
    shown = text_of(failures_table(jobs))
    assert "seed-[3]" in shown
    assert "an [odd] error" in shown
    assert shown.count("unfinished") == 1
    assert "seed-1" not in shown
    assert "All jobs: 1 failed" in text_of(sweep_table(jobs[2:3]))


@pytest.mark.parametrize("name", ["[red]", "[/x]", "[bold]a[/bold]", ":car:"])
def test_names_are_shown_as_they_are(runs, name):
    summary = {**runs[0].summary, "policy": name, "environment": name}
    jobs = [
        Outcome(name, "finished", SavedRun(runs[0].folder, summary)),
        Outcome(name, "failed", error=name),
    ]
    assert text_of(sweep_table(jobs)).count(name) == 2
    assert text_of(failures_table(jobs)).count(name) == 2

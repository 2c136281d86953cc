"""Every benchmark runs, at sizes that take no time; nothing here looks at a clock."""

import importlib
import json
from dataclasses import replace

import numpy as np
import pytest

from fairbandit.environments import Simulation
from tests import support
from tests.benchmarks import __main__ as benchmarks
from tests.benchmarks import long, measure, memory, online, players, report, worlds
from tests.benchmarks.rows import Measure, Row, Target
from tests.benchmarks.worlds import Bench, Scale


@pytest.fixture
def bench(tmp_path):
    said: list[str] = []
    yield Bench(Scale.tiny, tmp_path, said.append)
    assert said


@pytest.fixture
def here(monkeypatch):
    """What runs in a process of its own runs in this one, without another import of torch."""
    for module in (long, memory, online):
        monkeypatch.setattr(module, "alone", lambda work, *words: (work(*words), measure.peak()))


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", benchmarks.BENCHMARKS)
def test_it_runs(name, bench):
    rows = list(benchmarks.BENCHMARKS[name](bench))
    assert rows
    assert all(row.seconds or row.note for row in rows)
    names = [row.name for row in rows]
    assert len(set(names)) == len(names)


@pytest.mark.usefixtures("here")
def test_an_agent_is_timed_after_each_history(bench):
    rows = list(online.online(bench))
    short, long_ = (row for row in rows if row.name.endswith("rounds, median"))
    assert "after 50 rounds" in short.name
    assert (long_.beside, long_.yardstick) == ("after 50", short.seconds)
    assert all(row.seconds for row in rows if "act" in row.name)


def test_a_process_alone_has_a_peak_of_its_own():
    held = b"x" * 2**28  # by this process
    total, peak = measure.alone(sum, [1, 2])
    assert total == 3
    assert 2**24 < peak < measure.peak() - len(held) // 2


@pytest.mark.parametrize("kind", [players.Vowpal, players.VowpalText, players.LinUcb])
def test_a_library_that_is_not_there_is_named_with_its_command(kind, monkeypatch, bench):
    def refuse(name):
        raise ImportError(name)

    bench.say("")
    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(players.MissingError, match=r"pip install '\.\[bench\]'"):
        kind(*range(1, 1 + (2 if kind is players.LinUcb else 1)))


def test_players_take_turns_on_the_same_pools():
    world = support.environment()
    one, other = (
        players.Ours("fair_greedy", world.features, len(world.group_names)) for _ in range(2)
    )
    taken = players.pace([one, other], worlds.pools(world, 120))
    assert [len(times) for times in taken] == [120, 120]


def test_the_closed_form_agrees_with_the_quadrature():
    world = support.environment()
    assert isinstance(world, Simulation)
    for weights, offset in zip(world.weights, world.offsets, strict=True):
        share = worlds.uniform_sum(weights, offset)
        for value in np.linspace(offset - 1, offset + sum(weights) + 1, 40):
            expected = support.weighted_uniforms_cdf(weights, offset, float(value))
            assert share(float(value)) == pytest.approx(expected, abs=1e-12)


ROW = Row("a run", 2.0, "a loop", 30.0, targets=(Target(Measure.faster, 10),), peak=10**9)


def test_targets_bound_the_right_figure():
    assert ROW.ratio == 15
    assert ROW.holds(Target(Measure.faster, 15)) is True
    assert ROW.holds(Target(Measure.faster, 16)) is False
    assert ROW.holds(Target(Measure.longer, 16)) is None
    assert ROW.holds(Target(Measure.seconds, 2)) is True
    assert ROW.holds(Target(Measure.gigabytes, 0.5)) is False
    longer = replace(ROW, seconds=45.0, longer=True)
    assert longer.ratio == 1.5
    assert longer.holds(Target(Measure.longer, 1.4)) is False
    assert longer.holds(Target(Measure.beyond, 15)) is True
    assert replace(ROW, seconds=None).holds(Target(Measure.beyond, 15)) is None


def test_results_are_saved_and_compared(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(benchmarks, "BENCHMARKS", {"one": lambda bench: iter([ROW])})
    path = tmp_path / "kept" / "before.json"
    benchmarks.main(["--save", str(path)])
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    saved = json.loads(path.read_text(encoding="utf-8"))
    assert saved["rows"][0]["ratio"] == 15
    assert {"commit", "cpus", "date", "threads", "versions"} <= set(saved["about"])
    assert report.saved(path) == {"a run": 2.0}
    monkeypatch.setattr(
        benchmarks, "BENCHMARKS", {"one": lambda bench: iter([replace(ROW, seconds=3.0)])}
    )
    capsys.readouterr()
    benchmarks.main(["--compare", str(path), "--quick", "--only", "one"])
    printed = capsys.readouterr().out
    assert "now/before" in printed
    assert "1.50" in printed
    assert "≥ 10 × faster" in printed


def test_one_that_breaks_off_does_not_stop_the_others(monkeypatch):
    def broken(bench):
        yield ROW
        raise AssertionError("\nthe loop decides otherwise\nin round 3")

    made = {"broken": broken, "other": lambda bench: iter([ROW])}
    monkeypatch.setattr(benchmarks, "BENCHMARKS", made)
    rows = benchmarks.run(["broken", "other"], Scale.tiny)
    assert rows == [ROW, Row("broken", note="broke off: the loop decides otherwise"), ROW]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, ""), (3e-7, "0.3 µs"), (5e-5, "50 µs"), (0.25, "250 ms"), (2, "2 s"), (250, "250 s")],
)
def test_durations(seconds, text):
    assert report.duration(seconds) == text

"""Every benchmark runs, at sizes that take no time; nothing here looks at a clock."""

import importlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fairbandit.environments import Simulation
from tests import support
from tests.benchmarks import __main__ as benchmarks
from tests.benchmarks import measure, players, report, worlds
from tests.benchmarks.rows import Measure, Row, Target
from tests.benchmarks.worlds import Bench, Scale


@pytest.mark.all
@pytest.mark.parametrize("name", benchmarks.BENCHMARKS)
def test_it_runs(name: str, tmp_path: Path) -> None:
    said: list[str] = []
    rows = list(benchmarks.BENCHMARKS[name](Bench(Scale.tiny, tmp_path, said.append)))
    assert said
    assert rows
    assert all(row.seconds or row.note for row in rows)
    assert len({row.name for row in rows}) == len(rows)


@pytest.mark.all
def test_a_process_alone_has_a_peak_of_its_own() -> None:
    held = b"x" * 2**28  # by this process
    total, peak = measure.alone(sum, [1, 2])
    assert total == 3
    assert 2**24 < peak < measure.peak() - len(held) // 2


def test_a_library_that_is_not_there_is_named_with_its_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", refuse)
    for make in (lambda: players.Vowpal(1), lambda: players.LinUcb(1, 2)):
        with pytest.raises(players.MissingError, match=r"pip install '\.\[bench\]'"):
            make()


def test_the_closed_form_agrees_with_the_quadrature() -> None:
    world = support.environment()
    assert isinstance(world, Simulation)
    for weights, offset in zip(world.weights, world.offsets, strict=True):
        share = worlds.uniform_sum(weights, offset)
        for value in np.linspace(offset - 1, offset + sum(weights) + 1, 40):
            expected = support.weighted_uniforms_cdf(weights, offset, float(value))
            assert share(float(value)) == pytest.approx(expected, abs=1e-12)


ROW = Row("a run", 2.0, "a loop", 30.0, targets=(Target(Measure.faster, 10),), peak=10**9)


def test_targets_bound_the_right_figure() -> None:
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


def test_results_are_saved_and_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(benchmarks, "BENCHMARKS", {"one": lambda bench: iter([ROW])})
    path = tmp_path / "kept" / "before.json"
    benchmarks.main(["--save", str(path)])
    saved = json.loads(path.read_text(encoding="utf-8"))
    assert saved["rows"][0]["ratio"] == 15
    assert {"commit", "date", "versions"} <= set(saved["about"])
    assert report.saved(path) == {"a run": 2.0}
    slower = replace(ROW, seconds=3.0)
    monkeypatch.setattr(benchmarks, "BENCHMARKS", {"one": lambda bench: iter([slower])})
    capsys.readouterr()
    benchmarks.main(["--compare", str(path), "--quick", "--only", "one"])
    printed = capsys.readouterr().out
    assert "now/before" in printed
    assert "1.50" in printed
    assert "≥ 10 × faster" in printed


def test_one_that_breaks_off_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(bench: Bench):
        yield ROW
        raise AssertionError("\nthe loop decides otherwise\nin round 3")

    made = {"broken": broken, "other": lambda bench: iter([ROW])}
    monkeypatch.setattr(benchmarks, "BENCHMARKS", made)
    rows = benchmarks.run(["broken", "other"], Scale.tiny)
    assert rows == [ROW, Row("broken", note="broke off: the loop decides otherwise"), ROW]

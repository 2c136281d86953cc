"""Every experiment file, and what a sweep leaves beside its jobs."""

import pytest

from tests.docs.experiments import EXPERIMENTS, FIGURES, OF_PAGES, check

ELSEWHERE = set[str]().union(*OF_PAGES.values())
"""Those that tests/docs/test_pages.py runs, by `make test-all`."""


@pytest.mark.all
@pytest.mark.parametrize("name", sorted(EXPERIMENTS - ELSEWHERE))
def test_every_experiment_runs(command, tmp_path, name):
    words = ["environment.root=sample"] if name.startswith("census") else []
    code, out, err = command(
        f"+experiment={name}", *words, "rounds=7", "replicas=2", "hydra.sweep.dir=sweep"
    )
    assert (code, err) == (0, "")
    check(name, tmp_path / "sweep", out, rounds=7, replicas=2)


def test_an_experiment_takes_other_policies(command):
    words = ["policy=greedy,gmf", "figures=[price]", "rounds=7", "replicas=2"]
    code, out, err = command("+experiment=simulation", *words)
    assert (code, err) == (0, "")
    assert "All jobs: 2 finished" in out
    assert out.endswith("price.pdf\n")


def test_settings_are_the_papers_unless_overridden(command):
    for name in FIGURES:
        code, out, _ = command(f"+experiment={name}", "--cfg", "job")
        assert code == 0
        assert "rounds: null" in out  # the environment's own: 5,000, 5,000 and 2,500
        assert "replicas: 10" in out

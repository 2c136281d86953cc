"""How the dashboard names runs and finds them."""

import pytest

from fairbandit.cli.dashboard import link_runs, run_name
from fairbandit.cli.main import main


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["policy=uniform", "policy.selector=argmax", "seed=0,1", "rounds=5", "replicas=1"]
    words = [word for word in words if "selector" not in word]
    main(["-m", *words, "hydra.sweep.dir=out/sweep"])
    main(["policy=greedy", "rounds=5", "replicas=1", "hydra.run.dir=out/alone"])
    return tmp_path / "out"


def test_runs_are_named_by_what_differs(sweep):
    jobs = sorted(path.parent for path in (sweep / "sweep").glob("*/summary.json"))
    assert [run_name(job, sweep / "sweep") for job in jobs] == ["seed-0", "seed-1"]
    assert [run_name(job, sweep) for job in jobs] == ["sweep-seed-0", "sweep-seed-1"]
    assert run_name(sweep / "alone", sweep) == "alone"
    assert run_name(sweep / "alone", sweep / "alone") == "alone"


def test_links_are_made_once_and_followed_by_new_ones(sweep, tmp_path):
    links = tmp_path / "links"
    links.mkdir()
    link_runs([sweep / "sweep"], links)
    assert sorted(path.name for path in links.iterdir()) == ["seed-0", "seed-1"]
    link_runs([sweep / "sweep", sweep], links)
    names = sorted(path.name for path in links.iterdir())
    assert names == ["alone", "seed-0", "seed-1"]
    assert (links / "seed-0" / "summary.json").exists()


def test_equal_names_are_counted(sweep, tmp_path):
    links = tmp_path / "links"
    links.mkdir()
    (links / "alone").symlink_to(tmp_path)
    link_runs([sweep / "alone"], links)
    assert (links / "alone (2)" / "summary.json").exists()

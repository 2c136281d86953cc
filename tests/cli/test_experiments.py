"""Every experiment file, and what a sweep leaves beside its jobs."""

import pytest

from tests.docs.experiments import EXPERIMENTS, FIGURES, OF_PAGES, check

ELSEWHERE = set[str]().union(*OF_PAGES.values())
"""Those that tests/docs/test_pages.py runs, by `make test-all`."""

FEW = ["simulation"]


@pytest.mark.parametrize(
    "name",
    [
        *FEW,
        *(
            pytest.param(one, marks=pytest.mark.all)
            for one in sorted(EXPERIMENTS - {*FEW, *ELSEWHERE})
        ),
    ],
)
def test_every_experiment_runs(command, tmp_path, name):
    words = ["environment.root=sample"] if name.startswith("census") else []
    code, out, err = command(
        f"+experiment={name}", *words, "rounds=7", "replicas=2", "hydra.sweep.dir=sweep"
    )
    assert (code, err) == (0, "")
    check(name, tmp_path / "sweep", out, rounds=7, replicas=2)


def test_settings_are_the_papers_unless_overridden(command):
    for name in FIGURES:
        code, out, _ = command(f"+experiment={name}", "--cfg", "job")
        assert code == 0
        assert "rounds: null" in out  # the environment's own: 5,000, 5,000 and 2,500
        assert "replicas: 10" in out


SMALL = ("rounds=9", "replicas=2", "hydra.sweep.dir=sweep")


@pytest.mark.all
def test_the_tool_draws_all_figures_or_those_asked_for(command, tmp_path):
    command("-m", "policy=uniform,greedy", "figures=[price]", *SMALL)
    before = (tmp_path / "sweep" / "figures" / "price.png").read_bytes()
    code, out, _ = command("figures", "sweep")
    assert code == 0
    assert "sweep/figures/overview.pdf" in out
    assert (tmp_path / "sweep" / "figures" / "price.png").read_bytes() == before
    command("figures", "sweep", "only=overview", "policy=greedy", "out=paper")
    drawn = sorted(path.name for path in (tmp_path / "paper").iterdir())
    assert drawn == ["overview.pdf", "overview.png"]
    command("figures", "sweep", "sweep", "only=counts,price")
    assert len(list((tmp_path / "figures").iterdir())) == 4
    _, out, _ = command(
        *("figures", "sweep", "metrics=fair_regret,standard_regret", "out=curves"),
        *("where.estimator=zero", "where.rounds=9,10"),
    )
    assert "curves/metrics.pdf" in out
    assert len(list((tmp_path / "curves").iterdir())) == 2
    for words, message in [
        (["metrics=nope"], "unknown metric 'nope'; expected one of standard_regret"),
        (["where.estimator=nope"], "no run has estimator=nope; its values are ridge, zero"),
    ]:
        code, _, err = command("figures", "sweep", *words)
        assert code == 1
        assert message in err

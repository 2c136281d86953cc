"""The comparison's own loop plays what the engine plays, and other libraries learn through it."""

import numpy as np
import pytest

from tests import support
from tests.studies.comparison import play
from tests.studies.comparison import tune as tuning
from tests.studies.comparison.__main__ import PAGE, compared, with_results
from tests.studies.comparison.learners import LEARNERS, PRODUCTS, SWITCH, Range
from tests.studies.comparison.report import Row, interval, page
from tests.studies.comparison.tune import FINALISTS, SETTINGS, saved, tried

OURS = [name for name, learner in LEARNERS.items() if learner.config]
OTHERS = [name for name, learner in LEARNERS.items() if not learner.config]

ROUNDS, SEED = 120, 3


@pytest.mark.parametrize("name", OURS)
def test_the_loop_gives_the_regret_of_the_engine(name: str) -> None:
    learner, world = LEARNERS[name], support.environment()
    settings = tried(learner.space)[-1]
    pools = play.drawn(world, ROUNDS, SEED)
    picks, _ = play.play(learner.make(play.shape(world, (0, 1), SEED), settings), pools)
    found = play.regrets(pools, picks)
    (played,) = support.played(learner.policy(settings), world, ROUNDS, seed=SEED)
    assert found["standard"] == pytest.approx(played.standard_regret[0].numpy(), abs=1e-12)
    assert found["fair"] == pytest.approx(played.fair_regret[0].numpy(), abs=1e-12)
    assert found["standard"].sum() > 1


def test_the_settings_that_are_tried_cover_their_ranges() -> None:
    found = tried({"rate": Range(1.0, 0.01, 100.0), PRODUCTS: SWITCH})
    assert found[0] == {"rate": 1.0, PRODUCTS: 0.0}
    assert len(found) == SETTINGS
    rates = np.array([one["rate"] for one in found[1:]])
    assert 0.01 <= rates.min() < 0.03
    assert 30 < rates.max() <= 100
    assert sum(one[PRODUCTS] for one in found) == SETTINGS // 2


def test_every_learner_was_tuned_in_every_world() -> None:
    kept = saved()
    assert list(kept) == list(play.WORLDS)
    for world, entry in kept.items():
        assert list(entry["learners"]) == list(play.WORLDS[world].learners)
        for name, learner in play.WORLDS[world].learners.items():
            chosen = entry["learners"][name]
            assert chosen["settings"] in tried(play.WORLDS[world].space(learner))


def test_the_settings_of_the_least_mean_regret_are_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Setting n costs n with the first seed and 100 − n with others: the last finalist is best."""
    name = OURS[0]
    spread = [{"number": float(n)} for n in range(SETTINGS)]
    monkeypatch.setattr(play, "LEARNERS", {name: LEARNERS[name]})
    monkeypatch.setattr(tuning, "tried", lambda space: spread)

    def picks(learner, settings, environment, usual, drawn, seed):
        return settings["number"] if seed == 7 else 100 - settings["number"]

    monkeypatch.setattr(play, "picks", picks)
    monkeypatch.setattr(play, "regrets", lambda drawn, cost: {LEARNERS[name].by: np.array(cost)})
    found = tuning.tune(play.WORLDS["simulation"], 10, [7, 8, 9])["learners"][name]
    last = FINALISTS - 1.0
    assert found["settings"] == {"number": last}
    assert found["regret"] == round((last + 2 * (100 - last)) / 3, 4)
    assert found["regret_of_defaults"] == round(200 / 3, 4)


def test_the_report_says_who_wins() -> None:
    draw = np.random.default_rng(0).normal(size=20)
    rows = [
        Row("here", "fairbandit greedy", {"standard": 50 + draw, "fair": 9 + 0 * draw}, 1.0),
        Row("here", "VW squarecb", {"standard": 40 + draw, "fair": 9 + draw}, 0.1),
        Row("here", "coba LinTS", {}, note="not installed"),
    ]
    lines = page(rows, {}, 10, range(20)).splitlines()
    standard, fair = (line for line in lines if line.startswith("| here |"))
    assert standard.endswith("| −10.0 ± 0.0 | 0 of 20 | **VW squarecb** |")
    assert fair.endswith("| **a tie** |")
    assert "coba LinTS: not installed." in lines
    assert interval(np.array([100.0, 300.0])) == "200 ± 1,271"


def test_the_results_in_the_page_are_replaced() -> None:
    before = PAGE.read_text(encoding="utf-8")
    after = with_results(before, "new results")
    assert after.count("new results") == 1
    assert "simulation | standard" not in after
    assert with_results(with_results(before, "others"), "new results") == after


@pytest.mark.all
@pytest.mark.parametrize("products", [False, True])
@pytest.mark.parametrize("name", OTHERS)
def test_every_library_learns_an_easy_world(name: str, products: bool) -> None:
    """One feature is the reward, without noise: a uniform pick loses 1.03 a round, as E max z."""
    learner = LEARNERS[name]
    pytest.importorskip(learner.package)
    world = support.environment(
        "synthetic", theta=[1.0], offsets=[0.0] * 4, scales=[1.0], noise=0.0
    )
    pools = play.drawn(world, 1000, SEED)
    settings = tried(learner.space)[0] | {PRODUCTS: float(products)}
    player = learner.make(play.shape(world, (-2.3, 2.3), SEED), settings)
    picks, _ = play.play(player, pools)
    assert play.regrets(pools, picks)["standard"][-200:].mean() < 0.1


@pytest.mark.all
def test_a_tiny_comparison_depends_on_the_seeds_only() -> None:
    tuned = {name: entry for name, entry in saved().items() if name == "quadratic"}
    once, again = (list(compared(tuned, 30, range(2))) for _ in range(2))
    assert [row.learner for row in once] == list(LEARNERS)
    for row, other in zip(once, again, strict=True):
        assert row.regrets or "pip install" in row.note
        for regret, values in row.regrets.items():
            assert values.tolist() == other.regrets[regret].tolist()
    page(once, tuned, 30, range(2))

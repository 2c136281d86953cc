"""What a run notes of settings that are plausible mistakes."""

import json

import numpy as np
import pytest

from fairbandit.notices import noted
from fairbandit.runs.execute import execute
from fairbandit.runs.notices import STEPS
from tests import support
from tests.environments.data import arguments, people, write

POOLS = {"pool": "random", "candidates": 5}


def notes(folder, rank: str, rounds: int, table=None, pool=POOLS, **settings) -> str:
    """The notices of a run in pools of five, of three groups of which b and c are small."""
    world = arguments(write(folder / "people.csv", table or people()), **pool)
    policy = {**support.PRESETS["fair_greedy"], "name": "fair_greedy", "rank": rank}
    config = {"policy": policy, "environment": world, "rounds": rounds, "replicas": 2, **settings}
    with noted() as found:
        execute(config, folder / f"{rank}-{rounds}", progress=False)
    return "\n".join(found)


def test_groups_with_few_past_contexts_beside_others_are_noted(tmp_path):
    found = notes(tmp_path, "empirical_cdf", 60)
    assert "rank 'empirical_cdf' is coarse for 'b', 'c': " in found
    assert "fewer than 50 is picked too often" in found
    for rank, rounds in (("smoothed_cdf", 60), ("empirical_cdf", 8)):
        assert "is coarse for" not in notes(tmp_path, rank, rounds)


def test_people_who_come_again_are_no_further_contexts(tmp_path):
    groups = ["c" if row < 12 else "ab"[row % 2] for row in range(400)]
    table, pool = {**people(), "group": groups}, {"pool": "one_per_group"}
    found = notes(tmp_path, "empirical_cdf", 100, table, pool)
    assert "is coarse for 'c': 12 different past contexts " in found


@pytest.mark.parametrize("places", [4, 10, 100])
def test_enough_contexts_keep_the_excess_of_picks_below_a_twentieth(places):
    """A rank of n steps against K − 1 uniform ranks, exactly."""
    n = STEPS * places
    excess = places * np.mean((np.arange(n + 1) / n) ** (places - 1)) - 1
    assert excess == pytest.approx((places / 2 - 1) / n, rel=0.1)
    assert excess < 0.05


def test_the_rate_of_people_who_do_not_say_is_noted(tmp_path):
    table = people()
    table["group"][:100] = [None, "undisclosed"] * 50
    found = notes(tmp_path, "empirical_cdf", 8, table, {**POOLS, "unknown": ["undisclosed"]})
    summary = json.loads((tmp_path / "empirical_cdf-8" / "summary.json").read_text())
    counts = [
        [summary[key][g]["mean"] for g in summary["groups"]] for key in ("selected", "received")
    ]
    (*known, unsaid), (*others, absent) = counts
    rates = f"{100 * unsaid / absent:.1f} % of the {2 * absent:.0f} people whose group is unknown"
    assert f"{rates} are picked, and {100 * sum(known) / sum(others):.1f} % of the others" in found


def test_an_optimum_with_another_part_and_picks_that_take_everyone_are_noted(tmp_path):
    for name, picks in (("gmf", 7), ("greedy", 1)):
        policy = {**support.PRESETS[name], "name": name, "rank": "recent_cdf"}
        place = tmp_path / name
        place.mkdir()
        found = notes(place, "recent_cdf", 8, policy=policy, picks=picks)
        part = "policy gmf has the rank recent_cdf and not its own, oracle_cdf"
        for words in (part, "picks=7 from pools of at most 5"):
            assert (words in found) == (name == "gmf")

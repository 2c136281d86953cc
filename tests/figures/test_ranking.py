"""Who is ranked, in which direction, and how values are written."""

import numpy as np
import pytest

from fairbandit.errors import FairbanditError
from fairbandit.figures.ranking import Ranking, knows_truth, rank, standings, written
from fairbandit.results import PooledRuns, SavedRun, Scene
from fairbandit.results.scenes import scenes_of
from tests import support
from tests.figures.synthetic import judged

NAN = float("nan")


def scene(*runs: SavedRun) -> Scene:
    (found,) = scenes_of(runs)
    return found


def test_directions_ties_and_values_that_are_not_known():
    ends: dict[str, dict[str, float | None]] = {
        "uniform": {"gap": 1.0, "share": 5.0, "never": None},
        "oful": {"gap": None, "share": 7.0, "never": None},
        "greedy": {"gap": 2.0, "share": 7.0 + 1e-13, "never": None},
        "fair_greedy": {"gap": 4.0},
    }
    made = rank(scene(*(judged(name, own, higher=["share"]) for name, own in ends.items())))
    assert [run.policy for run in made.runs] == list(ends)
    assert made.columns == ("gap", "share")
    assert made.lower == (True, False)
    assert made.unknown == ("standard_regret", "fair_regret", "never")
    np.testing.assert_array_equal(made.mean, [[1, 5], [NAN, 7], [2, 7 + 1e-13], [4, NAN]])
    np.testing.assert_array_equal(made.standing, [[0, 1], [NAN, 0], [0.5, 0], [1, NAN]])
    # Student's 97.5 % quantile with three degrees of freedom, by the square root of 4
    np.testing.assert_allclose(made.half[0], 3.182446305284263 / 2)


def test_policies_that_know_the_truth_come_last_without_a_rank():
    names = ["gmf", "uniform", "fair_greedy_oracle_cdf", "greedy", "fair_greedy_oracle_rewards"]
    runs = [judged(name, {"fair_regret": place}) for place, name in enumerate(names)]
    made = rank(scene(*runs))
    assert made.ranked == 2
    assert {run.policy for run in made.runs[:2]} == {"uniform", "greedy"}
    assert made.standing[:, 0].tolist()[:2] == [0, 1]
    assert np.isnan(made.standing[2:]).all()


def test_a_policy_knows_the_truth_if_one_of_its_parts_needs_it():
    for name, parts in {**support.PRESETS, **support.NOTIONS}.items():
        policy = support.policy(name)
        needs = any(part.needs_truth for part in policy.parts.values())
        assert knows_truth(PooledRuns((judged(name, {}),))) == needs, parts


def test_runs_of_different_rounds_are_ranked_apart():
    ends = [(500, 9.0), (500, 8.0), (100, 3.0), (100, 2.0)]
    runs = [judged("greedy", {"gap": end}, rounds=t, own=end) for t, end in ends]
    made = rank(scene(*runs))
    found = {(run.rounds, mean): s for run, mean, s in zip(made.runs, *both(made), strict=True)}
    assert found == {(500, 9.0): 1, (500, 8.0): 0, (100, 3.0): 1, (100, 2.0): 0}


def both(made: Ranking) -> tuple[list[float], list[float]]:
    return made.mean[:, 0].tolist(), made.standing[:, 0].tolist()


def test_a_part_that_is_not_registered_is_named():
    run = judged("mine", {"gap": 1.0}, rank={"name": "not_here"})
    with pytest.raises(FairbanditError, match=r"unknown rank 'not_here'.*load_plugins"):
        rank(scene(run))


def test_standings_of_few_values():
    assert standings([]).tolist() == []
    assert standings([2.0]).tolist() == [0]
    assert standings([2.0, 2.0]).tolist() == [0, 0]
    assert standings([0.0, 1e-14, -1.0]).tolist() == [1, 1, 0]


@pytest.mark.parametrize(
    ("mean", "half", "texts"),
    [
        (18_780.44, 174.9, ("18,780", "±170")),
        (25.04, 1.26, ("25.0", "±1.3")),
        (0.3, 12.0, ("0.30", "±12")),
        (0.0, 0.0, ("0", "±0")),
        (0.0, 1e-15, ("0", "±0")),
        (-0.0499, 0.02, ("−0.050", "±0.020")),
        (-1e-7, 0.2, ("0.0000", "±0.20")),
        (1234567.0, 89.0, ("1.23e6", "±89")),
        (1e-7, 2e-8, ("1.00e−7", "±2.00e−8")),
        (0.25, NAN, ("0.25", "")),
        (1000.0, NAN, ("1,000", "")),
        (NAN, NAN, ("–", "")),
        (123.456789, 1e-5, ("123.46", "±1.00e−5")),
    ],
)
def test_numbers_as_they_are_written(mean, half, texts):
    assert written(mean, half) == texts

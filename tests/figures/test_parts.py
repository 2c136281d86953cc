"""Runs that cannot be told apart in one panel are split into parts."""

import pytest

from fairbandit.errors import FairbanditError
from fairbandit.figures.parts import MOST_PARTS, MOST_RUNS, Part, split
from tests.figures.synthetic import crossed

THREE = ("uniform", "greedy", "fair_greedy")
SIX = [0.01, 0.05, 0.1, 0.5, 1.0, 10.0]


def names(part: Part) -> list[str]:
    return [look.name for look in part.looks.values()]


def test_few_runs_are_one_part():
    (part,) = split(crossed(THREE))
    assert (part.title, part.policy) == ("", "")
    assert names(part) == ["Uniform random", "Greedy", "Fair-Greedy"]


def test_a_policy_that_all_share_is_not_repeated():
    (part,) = split(crossed(["greedy"], regularization=SIX))
    assert part.policy == "Greedy"
    assert names(part) == [f"regularization={value}" for value in SIX]
    (alone,) = split(crossed(["greedy"]))
    assert (alone.policy, names(alone)) == ("", ["Greedy"])


def test_the_setting_that_makes_the_fewest_parts_is_shared():
    parts = split(crossed(THREE, regularization=SIX))
    assert [part.title for part in parts] == ["Uniform random", "Greedy", "Fair-Greedy"]
    assert {tuple(names(part)) for part in parts} == {tuple(f"regularization={v}" for v in SIX)}
    assert len({tuple(part.looks.values()) for part in parts}) == 1
    parts = split(crossed(THREE, noise=[0.0, 1.0], regularization=SIX))
    assert [part.title for part in parts] == [f"regularization={value}" for value in SIX]
    assert names(parts[0])[:2] == ["Uniform random, noise=0.0", "Uniform random, noise=1.0"]
    parts = split(crossed(["greedy"], noise=[None, 1.0, 2.0], regularization=SIX))
    assert [part.title for part in parts] == ["noise=null", "noise=1.0", "noise=2.0"]


def test_runs_that_share_nothing_are_split_evenly():
    values = [round(0.01 * number, 2) for number in range(1, 14)]
    parts = split(crossed(["greedy"], regularization=values))
    assert [len(part.scene.runs) for part in parts] == [6, 7]
    assert [name for part in parts for name in names(part)] == [
        f"regularization={value}" for value in values
    ]
    assert {part.title for part in parts} == {""}


def test_too_many_runs_are_refused():
    most = MOST_RUNS * MOST_PARTS
    assert len(split(crossed(["greedy"], noise=range(most)))) == MOST_PARTS
    with pytest.raises(FairbanditError, match=r"at most 72 runs .* 73 .* policy\.estimator\.noise"):
        split(crossed(["greedy"], noise=range(most + 1)))

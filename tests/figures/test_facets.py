"""Runs that cannot be told apart in one panel are split into facets, and policies look apart."""

from typing import Any

import pytest

from fairbandit.building import policy_labels
from fairbandit.errors import FairbanditError
from fairbandit.figures.facets import MOST_FACETS, MOST_RUNS, Facet, Options, split
from fairbandit.figures.style import looks
from tests.figures.synthetic import SIX, crossed

THREE = ("uniform", "greedy", "fair_greedy")


def names(facet: Facet) -> list[str]:
    return [look.name for look in facet.looks.values()]


def titles(*policies: str, by: str | None = None, **settings: Any) -> list[str]:
    return [facet.title for facet in split(crossed(policies, **settings), Options(by))]


def test_few_runs_are_one_facet_that_names_a_shared_policy_once():
    (facet,) = split(crossed(THREE), Options())
    assert (facet.title, facet.policy) == ("", "")
    assert names(facet) == ["Uniform random", "Greedy", "Fair-Greedy"]
    (facet,) = split(crossed(["greedy"], regularization=SIX), Options())
    assert facet.policy == "Greedy"
    assert names(facet) == [f"regularization={value}" for value in SIX]


def test_the_setting_that_makes_the_fewest_facets_is_shared():
    assert titles(*THREE, regularization=SIX) == ["Uniform random", "Greedy", "Fair-Greedy"]
    values = [f"regularization={value}" for value in SIX]
    assert titles(*THREE, noise=[0.0, 1.0], regularization=SIX) == values
    facets = split(crossed(["greedy"], regularization=range(13)), Options())
    assert [len(facet.scene.runs) for facet in facets] == [7, 6]
    assert {facet.title for facet in facets} == {""}
    most = MOST_RUNS * MOST_FACETS
    assert len(titles("greedy", noise=range(most))) == MOST_FACETS
    with pytest.raises(FairbanditError, match=r"would have 10 of up to 8; .*\.noise"):
        titles("greedy", noise=range(most + 1))


def test_the_setting_of_the_facets_can_be_chosen():
    values = [f"regularization={value}" for value in SIX]
    assert titles(*THREE, by="regularization", regularization=SIX) == values
    assert titles(*THREE, by="policy") == ["Uniform random", "Greedy", "Fair-Greedy"]
    with pytest.raises(FairbanditError, match=r"would have 1 of up to 12; .*noise"):
        titles("greedy", by="policy", noise=SIX, regularization=[0, 1])
    with pytest.raises(FairbanditError, match="no run has a setting 'nope'"):
        titles("greedy", by="nope")


def test_policies_have_markers_lines_and_colours_of_their_own_in_every_figure():
    named = looks(policy_labels())
    for part in ("colour", "dashes", "marker", "hatch"):
        assert len({getattr(look, part) for look in named.values()}) == len(named)
    mine = [f"mine_{number}" for number in range(8)]
    assert len({look.colour for look in looks([*mine, *named]).values()}) == len(named) + len(mine)
    made = looks([*mine, "oful", "oful, seed=1"])
    assert made["oful"] == named["oful"]
    assert made["oful, seed=1"].name == "OFUL, seed=1"

"""Runs in one panel or in a panel for each value of a setting, and looks that differ."""

from typing import Any

import pytest

from fairbandit.errors import FairbanditError
from fairbandit.figures.layout import Facet, Options, split
from fairbandit.figures.style import looks
from fairbandit.policy.build import named_policies
from tests.figures.synthetic import SIX, crossed

THREE = ("uniform", "greedy", "fair_greedy")
LABELS = ["Uniform random", "Greedy", "Fair-Greedy"]


def names(facet: Facet) -> list[str]:
    return [facet.looks[run.label].name for run in facet.runs]


def titles(*policies: str, by: str | None = None, **settings: Any) -> list[str]:
    return [facet.title for facet in split(crossed(policies, **settings), Options(by))]


def test_a_shared_policy_is_named_once():
    (facet,) = split(crossed(THREE), Options())
    assert (facet.title, facet.shared, names(facet)) == ("", "", LABELS)
    (facet,) = split(crossed(["greedy"], regularization=SIX), Options())
    assert (facet.shared, names(facet)) == ("Greedy", [f"regularization={value}" for value in SIX])


def test_facets_are_made_on_request_and_their_names_leave_out_the_setting():
    values = [f"regularization={value}" for value in SIX]
    assert titles(*THREE, regularization=SIX[:5]) == [""]
    for key in ("regularization", "policy.estimator.regularization"):
        facets = split(crossed(THREE, regularization=SIX), Options(key))
        assert [facet.title for facet in facets] == values
        assert all(names(facet) == LABELS for facet in facets)
    for facet, label in zip(
        split(crossed(THREE, regularization=SIX), Options("policy")), LABELS, strict=True
    ):
        assert (facet.title, facet.shared, names(facet)) == (label, "", values)


def test_too_many_runs_say_in_what_they_differ(monkeypatch):
    monkeypatch.setattr("fairbandit.figures.layout.MOST_RUNS", 3)
    monkeypatch.setattr("fairbandit.figures.layout.MOST_FACETS", 2)
    assert len(titles("greedy", by="noise", noise=range(2))) == 2
    for by, message in ((None, "1 of up to 4"), ("noise", "4 of up to 1")):
        with pytest.raises(FairbanditError, match=rf"would have {message}; .* in policy, noise$"):
            titles("greedy", by=by, noise=range(4))
    with pytest.raises(FairbanditError, match="unknown setting 'nope'"):
        titles("greedy", by="nope", noise=range(4))


def test_policies_are_told_apart_by_lines_and_by_markers_in_every_figure():
    labels = {policy.label: policy.label for policy in named_policies().values()}
    named = looks(labels)
    mine = {f"mine {number}": f"mine {number}" for number in range(8)}
    for part in ("line", "marker"):
        first = dict[Any, str]()
        for label, look in looks(mine | labels).items():
            other = first.setdefault((look.colour, getattr(look, part)), label)
            assert label == other, f"{label} has the colour and the {part} of {other}"
    # a policy keeps its look where it has one run, whatever the name of the run
    alone = looks({**mine, "OFUL, picks=2": "OFUL"})
    assert alone["OFUL, picks=2"].style == {**named["OFUL"].style, "label": "OFUL, picks=2"}
    two = looks({"OFUL, a=1": "OFUL", "OFUL, a=2": "OFUL"}).values()
    assert named["OFUL"].colour not in {look.colour for look in two}

"""Words of the command: a mapping without blanks is read as Hydra reads it."""

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from fairbandit.cli.parsers import read_parameters


@pytest.mark.parametrize(
    "value",
    [
        "{name:fair_greedy,rank:smoothed_cdf}",
        "{name: fair_greedy,rank:{name:smoothed_cdf,bandwidth:2}}",
        "[{name:greedy,refresh:1.5},oful]",
        "{age:null,hours:-1.5,job:[clerk,nurse]}",
        "{a:'b c',d:e:f}",
        "{a:b }",
        "{regularization:{low:1e-3,high:10},split:[full]}",
    ],
)
def test_mappings_are_those_of_hydra(value):
    right = OverridesParser.create().parse_override(f"key={value}").value()
    assert read_parameters([f"key={value}"], "tool") == {"key": right}


@pytest.mark.parametrize(
    ("value", "right"),
    [
        ("{'a:b',c}", {"a:b": None, "c": None}),
        ("[a:b,c]", ["a:b", "c"]),
        ("s3://folder/log.csv", "s3://folder/log.csv"),
    ],
)
def test_colons_of_names_are_left_alone(value, right):
    assert read_parameters([f"key={value}"], "tool") == {"key": right}

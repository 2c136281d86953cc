"""Spellings of labels that are one group, and labels that are not."""

import math
from enum import StrEnum

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairbandit.tables.labels import Codes, check_labels, coded, normal, words_of


class Sex(StrEnum):
    F = "f"


@pytest.mark.parametrize(
    "spelled",
    [
        [1, "1", 1.0, "1e0", " 1 ", "+1", np.int8(1), np.float64(1)],
        [True, "true", "TRUE", np.bool_(True)],
        ["caf\u00e9", "cafe\u0301", " caf\u00e9\n"],
        [("f", 1), ["f", "1.0"], "f × 1"],
        [Sex.F, "f"],
        [pd.Interval(0, 30), "(0, 30]"],
        [None, "None"],
    ],
)
def test_spellings_of_one_label(spelled):
    assert len({normal(one) for one in spelled}) == 1


def test_labels_that_differ():
    labels = [1, "01", "001", True, "a", "A", "", (), None, 0.1, ("a", "b"), "a b"]
    labels += ["1" * 16, "1" * 15 + "2"]
    assert len({normal(one) for one in labels}) == len(labels)


def test_missing_labels_are_one_group():
    absent = [None, "", " \n", math.nan, np.float64("nan"), pd.NA, pd.NaT, "unknown", " UNKNOWN"]
    words = ["Undisclosed", "n/a", -9]
    known = Codes(words=words_of(words))
    codes, groups = coded([*absent, "undisclosed ", "N/A", "-9.0", "f"], known)
    assert codes.tolist() == [0] * 12 + [1]
    assert groups.spellings == ("unknown", "f")
    assert len(coded([None, "undisclosed", "n/a", "None", "nan", 0], Codes())[1]) == 6
    of_parts = [("f", None), ("f", "undisclosed"), ("f", "")]
    codes, groups = coded([*of_parts, (None, "f"), None], known)
    assert codes.tolist() == [0, 0, 0, 1, 2]
    assert groups.spellings == (("f", "unknown"), ("unknown", "f"), "unknown")


def test_truth_values_are_numbers_where_labels_are_numbers():
    _, known = coded([0, 1], Codes())
    codes, same = coded([True, "FALSE", 1, np.bool_(False)], known)
    assert codes.tolist() == [1, 0, 1, 0]
    assert same is known
    check_labels([True, 0], ["1", "0"], "up")
    codes, groups = coded([True, 2, 0], Codes())  # in any order
    assert [*groups] == ["1", "2", "0"]
    assert groups.spellings == (1, 2, 0)
    assert [*coded([True, "f"], Codes())[1]] == ["true", "f"]
    _, known = coded([True, False], Codes())
    assert [*coded([1], known)[1]] == ["true", "false", "1"]


@settings(max_examples=40)
@given(st.lists(st.one_of(st.text(), st.integers(), st.floats(allow_nan=False), st.booleans())))
def test_numbers_of_labels_are_their_order_of_appearance(labels):
    codes, groups = coded(labels, Codes())
    forms = [normal(label) or "unknown" for label in labels]
    if {"0", "1"} & {*forms}:
        forms = [{"true": "1", "false": "0"}.get(form, form) for form in forms]
    assert [list(groups)[code] for code in codes] == forms
    assert list(groups) == list(dict.fromkeys(forms))
    assert all(normal(form) == form for form in forms)
    assert [normal(one) for one in groups.spellings] == list(groups)
    again, same = coded(labels, groups)
    assert again.tolist() == codes.tolist()
    assert same is groups

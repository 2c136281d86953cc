"""Guaranteed shares, as a list or as one number for all groups."""

import re
from typing import Any

import pytest

from fairbandit.errors import FairbanditError
from fairbandit.selectors.shares import group_shares


def test_one_number_or_a_list() -> None:
    assert group_shares(0.25, 4) == [0.25] * 4
    assert group_shares([0, 0.4, 0.6], 3) == [0.0, 0.4, 0.6]
    assert (group_shares(0.3), group_shares(None)) == ([0.3], [])
    assert (group_shares(None, 5), group_shares(None, 20)) == ([0.1] * 5, [0.025] * 20)
    assert group_shares(0.3, 0) == group_shares([], 0) == []


@pytest.mark.parametrize(
    ("given", "groups", "message"),
    [
        (0.3, 4, "must sum to at most 1; got 0.3, 1.2 for all 4 groups"),
        ([0.6, 0.5], None, "must sum to at most 1; got [0.6, 0.5], 1.1 for all 2 groups"),
        ([0.1, 0.1], 3, "expected one for each of 3 groups, or one number for all; got 2"),
        (-0.1, None, "expected a number from 0 to 1 for all groups, or a list"),
        ([0.1, float("nan")], 2, "expected a number from 0 to 1"),
        ("0.1", None, "got str '0.1'"),
        (True, None, "got bool True"),
        ([[0.1]], None, "got list [[0.1]]"),
    ],
)
def test_what_is_refused(given: Any, groups: int | None, message: str) -> None:
    with pytest.raises(FairbanditError, match=re.escape(message)):
        group_shares(given, groups)

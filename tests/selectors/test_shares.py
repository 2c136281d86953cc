"""Guaranteed shares, as a list or as one number for all groups."""

from fairbandit.selectors.group_shares import group_shares


def test_one_number_or_a_list() -> None:
    assert group_shares(0.25, 4) == [0.25] * 4
    assert group_shares([0, 0.4, 0.6], 3) == [0.0, 0.4, 0.6]
    assert (group_shares(0.3), group_shares(None)) == ([0.3], [])
    assert (group_shares(None, 5), group_shares(None, 20)) == ([0.1] * 5, [0.025] * 20)
    assert group_shares(0.3, 0) == group_shares([], 0) == []

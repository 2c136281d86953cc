"""A group at random, and its best candidate."""

import pytest
import torch

from fairbandit.parts import GroupChance, GroupParity
from tests.parts.selecting import select

INDEX = [[1.0, 5.0, 5.0, 9.0, 0.0, 99.0], [1.0, 2.0, 3.0, 4.0, 5.0, 99.0]]
GROUPS = [[0, 0, 0, 2, 1, -1], [1, 1, 1, 1, 1, -1]]


@pytest.mark.parametrize(
    ("chance", "expected"),
    [
        (GroupChance.uniform, [0, 1 / 6, 1 / 6, 1 / 3, 1 / 3, 0]),
        (GroupChance.pool, [0, 3 / 10, 3 / 10, 1 / 5, 1 / 5, 0]),
    ],
)
def test_probabilities(chance: GroupChance, expected: list[float]) -> None:
    """The best of group 0 tie; the second pool is of one group; the last place is empty."""
    selection = select(GroupParity(chance=chance), INDEX, GROUPS)
    wanted = torch.tensor([[expected, [0, 0, 0, 0, 1, 0]]], dtype=torch.float64)
    torch.testing.assert_close(selection.probabilities, wanted)


def test_ties_up_to_the_upper_index() -> None:
    index = torch.tensor([[[1.0, 1.0 - 1e-15, 0.9]]], dtype=torch.float64)
    selection = select(GroupParity(), index[0].tolist(), [[0, 0, 0]], upper=index + 1e-14)
    assert selection.probabilities[0, 0].tolist() == [0.5, 0.5, 0.0]


def test_groups_are_drawn_uniformly() -> None:
    """A chi-square test of 60,000 draws; 3 degrees of freedom exceed 30.7 once in a million."""
    n, expected = 60_000, torch.tensor([1, 1, 2, 2]) / 6
    selection = select(GroupParity(), INDEX[:1] * n, GROUPS[:1] * n)
    counts = torch.bincount(selection.actions[0], minlength=6)
    assert counts[[0, 5]].tolist() == [0, 0]
    assert float(((counts[1:5] - n * expected) ** 2 / (n * expected)).sum()) < 30.7

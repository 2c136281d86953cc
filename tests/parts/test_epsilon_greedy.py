"""ε-greedy against its formula, and at its two ends against the policies that they are."""

import math

import pytest
import torch

from fairbandit import FairbanditError
from fairbandit.conformance import Scattered
from fairbandit.parts import EpsilonGreedy
from tests import support
from tests.parts.test_selectors import asked


def test_the_formula() -> None:
    """Two of five tie, and one place is empty; in the second pool one is best."""
    index = torch.tensor([[[1.0, 2.0, 9.0, 2.0, 0.0], [3.0, 1.0, 9.0, 2.0, 0.0]]]).double()
    present = torch.tensor([True, True, False, True, True]).expand(index.shape)
    selection = asked(EpsilonGreedy(epsilon=0.2), index, present)
    expected = torch.tensor([[[0.05, 0.45, 0, 0.45, 0.05], [0.85, 0.05, 0, 0.05, 0.05]]]).double()
    torch.testing.assert_close(selection.probabilities, expected)


def test_ties_are_those_of_the_upper_index() -> None:
    index = torch.tensor([[[1.0, 1.0 - 1e-15, 0.9]]], dtype=torch.float64)
    selection = asked(EpsilonGreedy(epsilon=0.0), index, upper=index + 1e-14)
    assert selection.probabilities.tolist() == [[[0.5, 0.5, 0.0]]]


@pytest.mark.parametrize(("epsilon", "end"), [(0.0, "greedy"), (1.0, "uniform")])
def test_the_ends_decide_alike_in_every_round(epsilon: float, end: str) -> None:
    policy = support.policy("epsilon_greedy")
    policy.selector = EpsilonGreedy(epsilon=epsilon)
    found = support.actions(policy, Scattered(), 300, replicas=3)
    assert torch.equal(found, support.actions(support.policy(end), Scattered(), 300, replicas=3))


@pytest.mark.parametrize("epsilon", [-0.1, 1.1, math.nan])
def test_epsilon_out_of_range(epsilon: float) -> None:
    with pytest.raises(FairbanditError, match=r"epsilon \(ε\) must be from 0 to 1, got"):
        EpsilonGreedy(epsilon=epsilon)

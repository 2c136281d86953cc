"""Probabilities in proportion to merit."""

import math

import pytest
import torch
from torch import Tensor

from fairbandit import FairbanditError, Policy, build
from fairbandit.maths.merit import MeritForm
from fairbandit.parts import Proportional
from tests.parts.test_selectors import asked

INDEX = torch.tensor([[[1.0, -3.0, 9.0, 4.0, 0.005]]], dtype=torch.float64)
PRESENT = torch.tensor([[[True, True, False, True, True]]])


def shares(*merits: float) -> Tensor:
    return torch.tensor([[merits]], dtype=torch.float64) / sum(merits)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (Proportional(), shares(1, 0.01, 0, 4, 0.01)),
        (Proportional(floor=2.0), shares(2, 2, 0, 4, 2)),
        (Proportional(merit=MeritForm.power, exponent=0.5), shares(1, 0.01, 0, 2, 0.005**0.5)),
        (
            Proportional(merit=MeritForm.exponential, rate=0.5, floor=1e-9),
            shares(math.exp(0.5), math.exp(-1.5), 0, math.exp(2), math.exp(0.0025)),
        ),
    ],
)
def test_the_formula(selector: Proportional, expected: Tensor) -> None:
    """Of four candidates, one has a negative index, and one an index below the floor."""
    torch.testing.assert_close(asked(selector, INDEX, PRESENT).probabilities, expected)


def test_where_all_merits_are_equal_the_pick_is_uniform() -> None:
    for index in (-INDEX.abs(), torch.full_like(INDEX, 7.0)):
        found = asked(Proportional(), index, PRESENT).probabilities
        assert found.tolist() == [[[0.25, 0.25, 0, 0.25, 0.25]]]


def test_what_a_config_says() -> None:
    selector = {"name": "proportional", "merit": "exponential", "rate": 2.0}
    policy = build({"name": "fairx_rank", "selector": selector})
    assert isinstance(policy, Policy)
    assert policy.describe()["selector"] == {**selector, "exponent": 1.0, "floor": 0.01}
    with pytest.raises(FairbanditError, match=r"merit.*identity, power, exponential"):
        build({"name": "fairx_rank", "selector": {**selector, "merit": "linear"}})
    with pytest.raises(FairbanditError, match=r"floor \(γ\) must be above 0 and finite, got 0"):
        build({"name": "fairx_rank", "selector": {**selector, "floor": 0}})

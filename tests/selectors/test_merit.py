"""Merit functions against their formulas, where these overflow too."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairbandit.selectors.merit import MeritForm, MeritFunction


def plain(f: MeritFunction, x: float) -> float:
    """f as it is written."""
    if f.merit is MeritForm.exponential:
        return max(math.exp(f.rate * x), f.floor)
    if f.merit is MeritForm.power:
        return max(max(x, 0.0) ** f.exponent, f.floor)
    return max(x, f.floor)


def relative(logarithms: torch.Tensor) -> torch.Tensor:
    """Merits divided by the greatest."""
    return (logarithms - logarithms.max()).exp()


@given(
    form=st.sampled_from(MeritForm),
    exponent=st.floats(0.1, 4),
    rate=st.floats(0.1, 4),
    floor=st.floats(1e-3, 10),
    pool=st.lists(st.tuples(st.floats(-9, 9), st.booleans()), min_size=1, max_size=6),
)
def test_the_proportions_are_those_of_the_formula(
    form: MeritForm, exponent: float, rate: float, floor: float, pool: list[tuple[float, bool]]
) -> None:
    f = MeritFunction(merit=form, exponent=exponent, rate=rate, floor=floor)
    pool = [*pool, (1.0, True)]  # no pool is empty
    values = torch.tensor([x for x, _ in pool], dtype=torch.float64)
    weights = relative(f.merits(values, torch.tensor([here for _, here in pool])))
    merits = torch.tensor([plain(f, x) * here for x, here in pool], dtype=torch.float64)
    torch.testing.assert_close(weights, merits / merits.max(), rtol=1e-12, atol=0)
    assert float(weights.max()) == 1


@pytest.mark.parametrize(
    ("form", "pool", "expected"),
    [
        ("exponential", [1000.0, 999.0, -1e300], [1, math.exp(-1), 0]),
        ("exponential", [-1000.0, -1e300, -900.0], [1, 1, 1]),
        ("power", [1e200, 5e199, 0.0], [1, 0.25, 0]),
        ("power", [-1e200, -1.0, 0.0], [1, 1, 1]),
        ("identity", [1e308, 5e307, -1e308], [1, 0.5, 0]),
        ("identity", [5e-324, 0.02, -0.0], [0.5, 1, 0.5]),
    ],
)
def test_nothing_overflows(form: str, pool: list[float], expected: list[float]) -> None:
    f = MeritFunction(merit=MeritForm[form], exponent=2.0)
    values = torch.tensor(pool, dtype=torch.float64)
    weights = relative(f.merits(values, torch.ones(3, dtype=torch.bool)))
    torch.testing.assert_close(weights, torch.tensor(expected, dtype=torch.float64))
    assert float(weights.max()) == 1

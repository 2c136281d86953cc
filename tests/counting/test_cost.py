"""The rule of costs: slices for little, a scan for much, a sorted segment where it pays."""

import math

import pytest

from fairbandit.counting.cost import cheapest, search_budget


@pytest.mark.parametrize(
    ("scores", "values", "sliced", "cost"),
    [
        (50_000, 10, True, 150 * 10 + 1.5 * 50_000 + 0.25 * 1e3),
        (50_000, 600, False, 1e3 + 150_000),
        (math.inf, 10, False, 1e3 + 150_000),
    ],
)
def test_the_cheaper_of_slices_and_a_scan(
    scores: float, values: int, sliced: bool, cost: float
) -> None:
    assert cheapest(scores, 1e3, values, groups=2) == (sliced, cost)


def test_what_a_search_may_cost() -> None:
    assert search_budget(1e7, values=10, features=20, refused=0) == 1e7 - 1200 * (400 / 20 + 10)
    for cost, values, refused in ((149_999, 0, 0), (1e6, 300, 0), (1e6, 10, 2e6)):
        assert search_budget(cost, values, 400, refused) < 0

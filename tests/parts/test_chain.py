"""The chain against adding neighbours one by one, against argmax, and without bounds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairbandit import FairbanditError, Policy, build
from fairbandit.conformance import Scattered
from fairbandit.parts import Chain
from tests import support
from tests.notions.chains import chained
from tests.parts.test_selectors import asked

END = st.sampled_from([-np.inf, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, np.inf])


@given(st.lists(st.tuples(END, END, st.booleans()), min_size=1, max_size=9))
def test_whom_overlaps_connect_to_the_highest(pool: list[tuple[float, float, bool]]) -> None:
    """Small whole numbers, so that intervals touch, contain each other, and are equal."""
    low = np.array([min(one, other) for one, other, _ in pool])
    high = np.array([max(one, other) for one, other, _ in pool])
    present = np.array([here for _, _, here in pool])
    present[0] = True
    shape = 1, 1, len(pool)
    ends = tuple(torch.from_numpy(end).view(shape) for end in (low, high))
    selection = asked(
        Chain(),
        torch.zeros(shape, dtype=torch.float64),
        torch.from_numpy(present).view(shape),
        bounds=lambda candidates: (ends[0], ends[1]),
    )
    chain = np.flatnonzero(present)[chained(low[present], high[present])]
    expected = np.zeros(len(pool))
    expected[chain] = 1 / len(chain)
    assert selection.probabilities.flatten().tolist() == expected.tolist()


def test_bounds_that_are_the_index_itself_leave_those_who_tie_for_the_best() -> None:
    picks = []
    for selector in ("chain", "argmax"):
        made = build(
            {"split": "full", "estimator": "oracle", "rank": "identity", "selector": selector}
        )
        assert isinstance(made, Policy)
        picks.append(support.actions(made, Scattered(), 200, replicas=3))
    assert torch.equal(*picks)


def test_bounds_tie_as_the_index_does() -> None:
    index = torch.tensor([[[1.0, 1.0 - 1e-15, 0.9]]], dtype=torch.float64)
    selection = asked(Chain(), index, upper=index + 1e-14, bounds=lambda candidates: (index, index))
    assert selection.probabilities.flatten().tolist() == [0.5, 0.5, 0.0]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            {"estimator": "ridge", "rank": "identity"},
            "selector 'chain' needs .* estimator 'ridge' .*: optimistic_ridge, oracle",
        ),
        (
            {"estimator": "ridge", "rank": "interval_cdf"},
            "rank 'interval_cdf' needs confidence bounds, which estimator 'ridge'",
        ),
        (
            {"estimator": "optimistic_ridge", "rank": "empirical_cdf"},
            "which rank 'empirical_cdf' does not have; .*: identity, interval_cdf",
        ),
    ],
)
def test_parts_without_bounds_are_refused(parts: dict[str, str], message: str) -> None:
    made = build({"split": "full", **parts, "selector": "chain"})
    assert isinstance(made, Policy)
    with pytest.raises(FairbanditError, match=message):
        support.actions(made, Scattered(), 1)

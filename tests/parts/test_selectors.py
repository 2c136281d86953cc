"""Argmax: uniform over the maximisers, never an empty place."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairbandit import FairbanditError
from fairbandit.parts import Argmax, Problem
from fairbandit.streams import Streams


def argmax(replicas: int = 1) -> Argmax:
    made = Argmax()
    made.bind(Problem(1, 1, Streams(5, range(replicas))))
    return made


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=8))
def test_picks_a_present_maximiser(pool: list[tuple[int, bool]]) -> None:
    index = torch.tensor([[[float(value) for value, _ in pool]]])
    present = torch.tensor([[[here for _, here in pool]]])
    if not present.any():
        with pytest.raises(FairbanditError, match="the pool at replica 0, round 1 has no cand"):
            argmax().select(1, index, index, present)
        return
    action = int(argmax().select(1, index, index, present))
    best = max(value for value, here in pool if here)
    assert pool[action] == (best, True)


def test_ties_are_uniform() -> None:
    """Three of four tie; chi-square with 2 degrees of freedom, failing with probability 1e-6."""
    n = 30_000
    index = torch.tensor([1.0, 0.5, 1.0, 1.0]).expand(3, n // 3, 4)
    actions = argmax(3).select(1, index, index, torch.ones_like(index, dtype=torch.bool))
    counts = torch.bincount(actions.flatten(), minlength=4)
    assert int(counts[1]) == 0
    statistic = float(((counts[[0, 2, 3]] - n / 3) ** 2 / (n / 3)).sum())
    assert statistic < 27.6


def test_ties_within_the_given_rounding() -> None:
    index = torch.tensor([[[1.0, 1.0 - 1e-15, 0.9]]], dtype=torch.float64)
    picked = {
        int(argmax().select(t, index, index + 1e-14, torch.ones(1, 1, 3, dtype=torch.bool)))
        for t in range(1, 40)
    }
    assert picked == {0, 1}

"""Draws depend on their address alone, and are what NumPy's own generator gives there."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairbandit.streams import AHEAD, Purpose, Streams


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(1, 80)), min_size=1, max_size=6))
def test_any_order_of_asking_gives_numpys_own_sequence(asked: list[tuple[int, int]]) -> None:
    width, replicas = 3, [4, 0]
    stream = Streams(9, replicas)[Purpose.RANK]
    expected = []
    for replica in replicas:
        seed = np.random.SeedSequence(9, spawn_key=(replica, int(Purpose.RANK)))
        expected.append(np.random.Generator(np.random.PCG64(seed)).random(400 * width))
    table = torch.from_numpy(np.stack(expected)).view(2, 400, width)
    for first, count in asked:
        assert torch.equal(stream.uniform(first, count, width), table[:, first - 1 :][:, :count])


def test_purposes_seeds_and_replicas_differ() -> None:
    drawn = [
        float(Streams(seed, [replica])[purpose].uniform(1, 1, 1))
        for seed in (0, 1)
        for replica in (0, 1)
        for purpose in Purpose
    ]
    assert len(set(drawn)) == len(drawn)


def test_normal_draws_are_standard() -> None:
    """Mean and variance of 10⁶ draws; fails with probability below 1e-6 over seeds."""
    drawn = Streams(3, range(10))[Purpose.REWARDS].normal(1, 1000, 100)
    assert float(drawn.mean()) == pytest.approx(0, abs=5e-3)
    assert float(drawn.var()) == pytest.approx(1, abs=8e-3)
    assert bool(drawn.isfinite().all())


def test_few_rounds_at_a_time_across_a_stretch() -> None:
    one, other = (Streams(0, [0])[Purpose.POOLS] for _ in range(2))
    pieces = [one.uniform(t, 3, 2) for t in range(1, 2 * AHEAD, 3)]
    assert torch.equal(torch.cat(pieces, 1), other.uniform(1, 3 * len(pieces), 2))


@given(st.lists(st.integers(1, 12), min_size=1, max_size=60))
def test_pools_of_any_size_draw_one_after_the_other(sizes: list[int]) -> None:
    one, other = (Streams(0, [0, 1])[Purpose.RANK] for _ in range(2))
    places, pieces = 0, []
    for first, k in enumerate(sizes, 1):
        pieces.append(one.uniform(first, 1, k, places - (first - 1) * k)[:, 0])
        places += k
    assert torch.equal(torch.cat(pieces, 1), other.uniform(1, places, 1)[..., 0])

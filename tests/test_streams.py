"""Draws depend on their address alone, and are what NumPy's own generator gives there."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairbandit.streams import Purpose, Streams


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


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=30))
def test_runs_continue_the_same_sequence(counts: list[tuple[int, int]]) -> None:
    """Replicas read pieces of different lengths, each after what it read before."""
    one, other = (Streams(0, [0, 1])[Purpose.RANK] for _ in range(2))
    read, pieces = [0, 0], [list[float](), list[float]()]
    for sizes in counts:
        drawn = one.runs(read, sizes).split(sizes)
        for b, size in enumerate(sizes):
            pieces[b] += drawn[b].tolist()
            read[b] += size
    for b, table in enumerate(other.uniform(1, max(read), 1)[..., 0].tolist() if any(read) else []):
        assert pieces[b] == table[: read[b]]

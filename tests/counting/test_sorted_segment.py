"""The sorted segment counts exactly what a scan counts."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairbandit.counting import segments
from fairbandit.counting.buffer import RaggedBuffer
from fairbandit.counting.scan import Limits
from fairbandit.counting.sorted_segment import Asked, Costs, SortedCounts, SortedSegment
from fairbandit.maths.ties import upper_score
from tests.counting.test_against_dense import free


def buffered(contexts: torch.Tensor) -> RaggedBuffer:
    """Contexts (B, G, L, d) of every group, one in each round."""
    b, g, length, d = contexts.shape
    buffer = RaggedBuffer(contexts.new_zeros(b, 0, d), g)
    groups = torch.arange(g).repeat(length).expand(b, -1)
    rounds = torch.arange(1, length + 1).repeat_interleave(g)
    buffer.append(contexts.transpose(1, 2).flatten(1, 2), groups, rounds)
    return buffer


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 1e-9, 0.01, 1.0]),
    st.booleans(),
    st.sampled_from([200, 1 << 18]),
)
def test_counts_are_those_of_a_scan(seed: int, drift: float, whole: bool, chunk: int) -> None:
    """Any drift; repeated, rank-deficient and constant contexts, ties included."""
    draws = np.random.default_rng(seed)
    b, g, length, d, u, k = 2, 3, 150, 4, 3, 6
    size = (b, g, length, d)
    x = draws.integers(-2, 3, size).astype(float) if whole else draws.normal(size=size)
    x[..., 2] = x[..., 0] + x[..., 1]
    x[..., 3] = 1.0
    x[:, :, :2] *= 50
    x[:, 2] = x[:, 2, :1]
    contexts = torch.from_numpy(x)
    reference = torch.from_numpy(draws.normal(size=(b, d)))
    theta = reference[:, None] + drift * torch.from_numpy(draws.normal(size=(b, u, d)))
    groups = torch.from_numpy(draws.integers(-1, g, (b, u, k)))
    own = torch.stack([contexts[i][groups[i].clamp(min=0)] for i in range(b)])  # (B, U, K, L, d)
    scores = torch.einsum("bukld,bud->bukl", own, theta)
    picked = torch.from_numpy(draws.integers(0, length, (b, u, k, 1)))
    magnitudes = torch.einsum("bukld,bud->bukl", own.abs(), theta.abs())
    values = upper_score(scores.gather(3, picked), magnitudes.gather(3, picked))[..., 0]
    values[0, 0, 0] = torch.nan
    ends = [(0, length), (10, length), (length // 2, length)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "CHUNK", chunk)
        segment = SortedSegment(buffered(contexts), ends, reference)
        found = segment.count_le(Asked(groups.clamp(min=0), values, torch.arange(u), theta))
    assert found is not None
    start = torch.tensor([low for low, _ in ends])[groups.clamp(min=0)]
    inside = torch.arange(length) >= start[..., None]
    expected = ((scores <= values[..., None]) & inside).sum(3)
    asked = (groups >= 0) & ~values.isnan()
    assert torch.equal(found[0][asked], expected[asked].double())


def test_little_is_scored_again_after_a_small_drift() -> None:
    draws = np.random.default_rng(0)
    contexts = torch.from_numpy(draws.random((1, 1, 50_000, 4)))
    theta = torch.from_numpy(draws.normal(size=(1, 4)))
    values = torch.linspace(-1, 2, 20, dtype=torch.float64).view(1, 1, 20)
    segment = SortedSegment(buffered(contexts), [(0, 50_000)], theta)
    groups, one = torch.zeros(1, 1, 20, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
    same = segment.count_le(Asked(groups, values, one, theta[:, None]))
    moved = Asked(groups, values, one, theta[:, None] + 1e-3)
    near = segment.count_le(moved)
    assert same is not None
    assert near is not None
    assert same[1] <= 20
    assert 0 < near[1] < 20 * 50_000 * 0.01
    assert segment.count_le(moved, budget=near[1] - 1) is None


def test_a_segment_that_the_windows_have_left_keeps_no_entry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a store of bounded memory would grow as long as nothing long is asked about."""
    monkeypatch.setattr(Costs, "of", free)
    draws = np.random.default_rng(0)
    buffer = buffered(torch.from_numpy(draws.normal(size=(1, 2, 4000, 3))))
    theta = torch.ones(1, 1, 3, dtype=torch.float64)
    zero = torch.zeros(1, 1, 1, dtype=torch.int64)
    asked, counts = Asked(zero, zero.double(), zero[0, 0], theta), SortedCounts()
    limits = [Limits(1000, 1000, 4000, 4000)] * 2
    assert counts.count_le(asked, limits, buffer, chunked=True) is not None
    assert counts.segments == [(1000, 4000)] * 2
    assert counts.keep([3999, 3000]) == [1000, 1000]
    assert counts.keep([3999, 4000]) == [3999, 4000]
    assert not counts.segments

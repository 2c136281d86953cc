"""The index counts exactly what a scan counts."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairbandit.maths.lists import Lists
from fairbandit.maths.ties import ceiling
from fairbandit.parts import Division, History, LinearModel, Past, Problem, ranges
from fairbandit.parts import index as index_module
from fairbandit.parts.index import Asked, SortedStretch
from fairbandit.streams import Streams


def listed(contexts: torch.Tensor) -> Lists:
    """One list a replica and group of contexts (B, G, L, d)."""
    b, g, length, d = contexts.shape
    lists = Lists(contexts.new_zeros(b, 0, d), g)
    lists.reserve([length] * g)
    place = lists.addresses.view(b, g, 1) + torch.arange(length)
    groups = torch.arange(g).repeat_interleave(length).expand(b, -1)
    lists.write(groups, place.flatten(1), contexts.flatten(1, 2))
    return lists


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 1e-9, 0.01, 1.0]),
    st.booleans(),
    st.sampled_from([200, 1 << 18]),
)
def test_counts_are_a_scans(seed: int, drift: float, whole: bool, at_once: int) -> None:
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
    start = torch.from_numpy(draws.normal(size=(b, d)))
    theta = start[:, None] + drift * torch.from_numpy(draws.normal(size=(b, u, d)))
    groups = torch.from_numpy(draws.integers(-1, g, (b, u, k)))
    own = torch.stack([contexts[i][groups[i].clamp(min=0)] for i in range(b)])  # (B, U, K, L, d)
    scores = torch.einsum("bukld,bud->bukl", own, theta)
    picked = torch.from_numpy(draws.integers(0, length, (b, u, k, 1)))
    magnitudes = torch.einsum("bukld,bud->bukl", own.abs(), theta.abs())
    values = ceiling(scores.gather(3, picked), magnitudes.gather(3, picked))[..., 0]
    values[0, 0, 0] = torch.nan
    stretches = [(0, length), (10, length), (length // 2, length)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranges, "AT_ONCE", at_once)
        stretch = SortedStretch(listed(contexts), stretches, start)
        found = stretch.at_most(Asked(groups.clamp(min=0), values, torch.arange(u), theta))
    assert found is not None
    after = torch.tensor([low for low, _ in stretches])[groups.clamp(min=0)]
    inside = torch.arange(length) >= after[..., None]
    scan = ((scores <= values[..., None]) & inside).sum(3)
    asked = (groups >= 0) & ~values.isnan()
    assert torch.equal(found[0][asked], scan[asked].double())


def test_little_is_scored_again_after_a_small_drift() -> None:
    draws = np.random.default_rng(0)
    contexts = torch.from_numpy(draws.random((1, 1, 50_000, 4)))
    theta = torch.from_numpy(draws.normal(size=(1, 4)))
    values = torch.linspace(-1, 2, 20, dtype=torch.float64).view(1, 1, 20)
    stretch = SortedStretch(listed(contexts), [(0, 50_000)], theta)
    groups, one = torch.zeros(1, 1, 20, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
    same = stretch.at_most(Asked(groups, values, one, theta[:, None]))
    moved = Asked(groups, values, one, theta[:, None] + 1e-3)
    near = stretch.at_most(moved)
    assert same is not None
    assert near is not None
    assert same[1] <= 20
    assert 0 < near[1] < 20 * 50_000 * 0.01
    assert stretch.at_most(moved, budget=near[1] - 1) is None


@pytest.mark.parametrize("rare", [0.002, 0.3])
def test_many_replicas_of_a_rare_group(rare: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of different replicas need not overlap at all; counts are those of a scan."""
    free = index_module.Costs(entry=[1.0, 1.0], again=1e-9, use=0.0, sorting=0.01)
    monkeypatch.setattr(index_module.Costs, "of", lambda *asked: free)
    draws = np.random.default_rng(0)
    problem = Problem(2, 2, Streams(0, range(30)))
    indexed, plain = History(problem, {"contexts"}), History(problem, {"contexts"})
    monkeypatch.setattr(plain.contexts.index, "at_most", lambda *asked, **how: None)
    theta = torch.from_numpy(draws.normal(size=(30, 1, 2)))
    for at in range(0, 2000, 100):
        x = torch.from_numpy(draws.normal(size=(30, 100, 2, 2)))
        s = torch.from_numpy((draws.random((30, 100, 2)) < rare).astype(np.int64))
        model = LinearModel(theta + 1e-3 * torch.from_numpy(draws.normal(size=(30, 100, 2))))
        after = torch.arange(at, at + 100) // 2
        spans = Division(after, after, torch.arange(at, at + 100))
        counts = []
        for history in (indexed, plain):
            history.add_pools(x, s)
            window = Past(history.contexts, spans, s, model, torch.arange(100))
            counts.append(window.at_most((x * model.theta[:, :, None]).sum(-1)))
            history.forget(outcomes=0, contexts=int(after[-1]), picks=0)
        assert torch.equal(*counts)
    assert indexed.contexts.index.stretches

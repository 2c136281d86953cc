"""The index counts exactly what a scan counts."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairbandit.maths.ties import ceiling
from fairbandit.parts import Full, History, LinearModel, Past, Problem, Spans
from fairbandit.parts import index as index_module
from fairbandit.parts.index import SortedStretch
from fairbandit.streams import Streams


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 1e-9, 0.01, 1.0]),
    st.booleans(),
    st.sampled_from([7, 1 << 17]),
)
def test_counts_are_a_scans(seed: int, drift: float, whole: bool, at_once: int) -> None:
    """Any drift; repeated, rank-deficient and constant contexts, ties included."""
    draws = np.random.default_rng(seed)
    b, length, d, u, s = 2, 150, 4, 3, 5
    x = (
        draws.integers(-2, 3, (b, length, d)).astype(float)
        if whole
        else draws.normal(size=(b, length, d))
    )
    x[..., 2] = x[..., 0] + x[..., 1]
    x[..., 3] = 1.0
    x[:, :2] *= 50
    contexts = torch.from_numpy(x)
    start = torch.from_numpy(draws.normal(size=(b, d)))
    theta = start[:, None] + drift * torch.from_numpy(draws.normal(size=(b, u, d)))
    asked = contexts[:, draws.integers(0, length, s)]
    own = torch.einsum("bsd,bud->bus", asked, theta)
    values = ceiling(own, torch.einsum("bsd,bud->bus", asked.abs(), theta.abs()))
    values[0, 0, 0] = torch.nan
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_module, "AT_ONCE", at_once)
        found = SortedStretch(contexts, start).at_most(values, theta)
    assert found is not None
    counts, _ = found
    scores = torch.einsum("bld,bud->bul", contexts, theta)
    scan = (scores[:, :, None] <= values[..., None]).sum(-1)
    keep = ~values.isnan()
    assert torch.equal(counts[keep], scan[keep].double())


def test_little_is_scored_again_after_a_small_drift() -> None:
    draws = np.random.default_rng(0)
    contexts = torch.from_numpy(draws.random((1, 50_000, 4)))
    theta = torch.from_numpy(draws.normal(size=(1, 4)))
    values = torch.linspace(-1, 2, 20, dtype=torch.float64).view(1, 1, 20)
    stretch, far = SortedStretch(contexts, theta), 50_000 // 64
    same = stretch.at_most(values, theta[:, None])
    near = stretch.at_most(values, theta[:, None] + 1e-3)
    assert same is not None
    assert near is not None
    assert same[1] - far <= 20
    assert near[1] - far < 20 * 50_000 * 0.01
    assert stretch.at_most(values, theta[:, None] + 1e-3, budget=far + 1) is None


@pytest.mark.parametrize("rare", [0.002, 0.3])
def test_many_replicas_of_a_rare_group(rare: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of different replicas need not overlap at all; counts are those of a scan."""
    monkeypatch.setattr(index_module, "OVERHEAD", 1.0)
    draws = np.random.default_rng(0)
    problem = Problem(2, 2, Streams(0, range(30)), Full())
    indexed, plain = History(problem, {"contexts"}), History(problem, {"contexts"})
    for index in plain.indexes:
        monkeypatch.setattr(index, "at_most", lambda *asked: None)
    theta = torch.from_numpy(draws.normal(size=(30, 1, 2)))
    for at in range(0, 2000, 100):
        x = torch.from_numpy(draws.normal(size=(30, 100, 2, 2)))
        s = torch.from_numpy((draws.random((30, 100, 2)) < rare).astype(np.int64))
        model = LinearModel(theta + 1e-3 * torch.from_numpy(draws.normal(size=(30, 100, 2))))
        after = torch.arange(at, at + 100) // 2
        spans = Spans(after, after, torch.arange(at, at + 100))
        counts = []
        for history in (indexed, plain):
            history.add_pools(x, s)
            window = Past(history, spans, s, model, torch.arange(100))
            counts.append(window.at_most((x * model.theta[:, :, None]).sum(-1)))
            history.forget(outcomes=0, contexts=int(after[-1]))
        assert torch.equal(*counts)
    assert indexed.indexes[0].stop > 0

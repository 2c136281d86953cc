"""Distances from the mean bound how far any drift of the model moves a score."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairbandit.parts import shells as shells_module
from fairbandit.parts.shells import SHELLS, Measured


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from([0.0, 1.0, 30.0]))
def test_no_score_moves_further(seed: int, rank_deficient: bool, wander: float) -> None:
    """As the window moves on and grows, and its contexts become others than the first."""
    draws = np.random.default_rng(seed)
    b, d = 2, 3
    every = draws.normal(size=(b, 400, d)) + wander * np.linspace(0, 1, 400)[:, None]
    if rank_deficient:
        every[..., 2] = every[..., 0]
    contexts, measured = torch.from_numpy(every), Measured(1)
    after, until = 0, 30
    while until <= 400:
        own = contexts[:, after:until]
        shells = measured.of(0, own, after)
        assert shells.shell.shape == (b, until - after)
        drift = torch.from_numpy(draws.normal(size=(b, d, 1)))
        spread = torch.linalg.vector_norm(shells.factor.transpose(1, 2) @ drift, dim=1)
        moved = ((own - shells.mean[:, None]) @ drift).squeeze(2).abs()
        assert bool((moved <= shells.radius.gather(1, shells.shell) * spread).all())
        assert int(shells.shell.max()) < len(SHELLS)
        after += int(draws.integers(0, min(40, until - after) + 1))
        until += int(draws.integers(1, 60))


def test_contexts_are_measured_once_until_they_have_doubled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []
    norms = shells_module.Shells._norms

    def watched(self: shells_module.Shells, contexts: torch.Tensor) -> torch.Tensor:
        seen.append(contexts.shape[1])
        return norms(self, contexts)

    monkeypatch.setattr(shells_module.Shells, "_norms", watched)
    contexts, measured = torch.randn(1, 500, 2, dtype=torch.float64), Measured(1)
    for after, until in ((0, 100), (10, 120), (10, 120), (40, 240), (50, 260), (300, 400)):
        measured.of(0, contexts[:, after:until], after)
    assert seen == [100, 20, 120, 210, 100]

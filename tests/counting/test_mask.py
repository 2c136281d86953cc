"""Nothing is lost of what is stored, and scores are those of whole contexts."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairbandit.counting.mask import MOST, FeatureMask


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 9), st.floats(0, 1))
def test_what_is_stored(seed: int, groups: int, features: int, share: float) -> None:
    draws = np.random.default_rng(seed)
    used = torch.from_numpy(draws.random((groups, features)) < share)
    mask = FeatureMask(used)
    of = torch.from_numpy(draws.integers(0, groups, (2, 12)))
    contexts = torch.from_numpy(draws.normal(size=(2, 12, features))) * used[of]
    stored = mask.of_each(of, contexts)
    assert stored.shape[2] == mask.width
    assert not mask.loses(contexts, stored)
    theta = torch.from_numpy(draws.normal(size=(2, 3, features)))
    models = mask.of_all_groups(theta)
    assert models.shape == (2, 3, groups, mask.width)
    for group in range(groups):
        own = contexts[1][of[1] == group][None]
        kept = mask.of_group(group, own)
        assert torch.equal(kept[0], stored[1][of[1] == group])
        assert torch.equal(mask.whole(group, kept), own)
        assert torch.equal(mask.of_group(group, theta), models[:, :, group])
        scores = kept @ models[:1, :, group].transpose(1, 2)
        torch.testing.assert_close(scores, own @ theta[:1].transpose(1, 2))
    widest = max(1, int(used.sum(1).max()))
    assert mask.width == (features if widest > MOST * features else widest)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 9))
def test_the_mask_learns(seed: int, groups: int, features: int) -> None:
    """Features that were left out are noticed and stored from then on, except those of no group."""
    draws = np.random.default_rng(seed)
    used = draws.random((groups, features)) < 0.3
    mask = FeatureMask(torch.from_numpy(used))
    of = draws.integers(-1, groups, (1, 5))
    values = draws.normal(size=(1, 5, features)) * (draws.random((1, 5, features)) < 0.2)
    groups_of, contexts = torch.from_numpy(of), torch.from_numpy(values)
    own = contexts * (groups_of >= 0)[..., None]
    more = mask.learn(groups_of, contexts)
    assert not more.loses(own, more.of_each(groups_of.clamp(min=0), own))
    lost = mask.of_each(groups_of.clamp(min=0), own)
    lacking = any(
        mask.features is not None and not set(np.flatnonzero(x)) <= set(mask.features[g].tolist())
        for g, x in zip(of[0], values[0], strict=True)
        if g >= 0
    )
    assert mask.loses(own, lost) == lacking


def test_a_new_group_has_none() -> None:
    mask = FeatureMask(torch.tensor([[True, False, False, False]])).grow(3)
    assert mask.width == 1
    assert mask.of_group(0, torch.tensor([[[7.0, 0, 0, 0]]])).tolist() == [[[7.0]]]
    assert mask.of_all_groups(torch.ones(1, 1, 4)).shape == (1, 1, 3, 1)
    assert FeatureMask(torch.zeros(0, 4, dtype=torch.bool)).grow(2).width == 1

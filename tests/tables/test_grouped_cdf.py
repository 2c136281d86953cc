"""The CDF of a sample against fractions."""

from fractions import Fraction

import numpy as np
import torch

from fairbandit.tables.grouped_cdf import GroupedCdf


def test_shares_are_the_nearest_numbers_to_their_fractions() -> None:
    """Division of whole numbers rounds once, as does that of fractions."""
    draws = np.random.default_rng(0)
    sizes = [1, 3, 7, 32885, 1_000_003]
    samples = [np.sort(draws.integers(0, size, size).astype(float)) for size in sizes]
    groups = torch.from_numpy(draws.integers(0, len(sizes), 2000))
    values = torch.from_numpy(draws.random(2000)) * torch.tensor(sizes, dtype=torch.float64)[groups]
    shares = GroupedCdf([torch.from_numpy(sample) for sample in samples])(groups, values)
    assert shares.dtype == torch.float64
    for group, value, share in zip(groups.tolist(), values.tolist(), shares.tolist(), strict=True):
        members = int(np.searchsorted(samples[group], value, side="right"))
        assert share == float(Fraction(members, sizes[group]))


def test_an_empty_place_has_the_rank_0() -> None:
    cdf = GroupedCdf([torch.zeros(2, dtype=torch.float64)])
    assert cdf(torch.tensor([-1, 0]), torch.ones(2, dtype=torch.float64)).tolist() == [0, 1]

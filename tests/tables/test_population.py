"""The CDF of a sample against fractions, and the ridge fit against least squares."""

from fractions import Fraction

import numpy as np
import torch

from fairbandit.tables.population import GroupedCdf, ridge_fit


def test_shares_are_the_nearest_numbers_to_their_fractions() -> None:
    """Division of whole numbers rounds once, as does that of fractions; an empty place has 0."""
    draws = np.random.default_rng(0)
    sizes = [1, 3, 7, 32885, 1_000_003]
    samples = [np.sort(draws.integers(0, size, size).astype(float)) for size in sizes]
    groups = torch.from_numpy(draws.integers(0, len(sizes), 2000))
    values = torch.from_numpy(draws.random(2000)) * torch.tensor(sizes, dtype=torch.float64)[groups]
    cdf = GroupedCdf([torch.from_numpy(sample) for sample in samples])
    shares = cdf(groups, values)
    assert shares.dtype == torch.float64
    for group, value, share in zip(groups.tolist(), values.tolist(), shares.tolist(), strict=True):
        members = int(np.searchsorted(samples[group], value, side="right"))
        assert share == float(Fraction(members, sizes[group]))
    assert not cdf(torch.full_like(groups, -1), values).any()


def test_collinear_columns_leave_the_predictions_right() -> None:
    draw = np.random.default_rng(0)
    X, y = draw.normal(size=(400, 5)), draw.normal(size=400)
    X = np.column_stack([X, X @ np.ones(5), X[:, 0] + 1e-5 * draw.normal(size=400)])
    theta = ridge_fit(torch.from_numpy(X), torch.from_numpy(y), 1e-14).numpy()
    expected = X @ np.linalg.lstsq(X, y, rcond=None)[0]
    np.testing.assert_allclose(X @ theta, expected, atol=1e-6)

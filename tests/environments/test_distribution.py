"""Reward distributions on a grid, against closed forms."""

import math

import numpy as np
import pytest
import torch

from fairbandit.environments import Simulation
from fairbandit.environments.base import of_cdf, of_sample
from fairbandit.environments.simulation import uniform_sum_pdf
from tests import support
from tests.environments.data import arguments, people
from tests.environments.data import write as write_table


def normal(values: torch.Tensor) -> torch.Tensor:
    return torch.exp(-(values**2) / 2) / math.sqrt(2 * math.pi)


def test_of_a_smooth_cdf():
    found = of_cdf(torch.special.ndtr)
    assert found.values[0] == pytest.approx(-3.09, abs=0.01)
    torch.testing.assert_close(found.density[1:-1], normal(found.values[1:-1]), atol=1e-3, rtol=0)
    torch.testing.assert_close(found.cdf, torch.special.ndtr(found.values))


def test_of_a_sample():
    sample = torch.from_numpy(np.sort(np.random.default_rng(0).normal(size=100_000)))
    found = of_sample(sample)
    # the estimate's standard error is 0.0035 at the mode, and this the largest of 201
    torch.testing.assert_close(found.density, normal(found.values), atol=0.02, rtol=0)
    torch.testing.assert_close(found.cdf, torch.special.ndtr(found.values), atol=0.01, rtol=0)


@pytest.mark.parametrize("values", [[2.0], [2.0, 2.0, 2.0], [1.0, 2.0]])
def test_of_few_or_equal_rewards(values):
    found = of_sample(torch.tensor(values, dtype=torch.float64))
    assert found.density.isfinite().all()
    assert found.cdf[-1] == 1


def test_the_simulation_with_a_sample():
    world = support.environment(cdf="sampled", cdf_samples=1_000_000)
    assert isinstance(world, Simulation)
    found = world.reward_distribution(0)
    assert found is not None
    density = uniform_sum_pdf(found.values, world.weights[0], world.offsets[0])
    np.testing.assert_allclose(found.density[20:-20], density[20:-20], atol=0.05)


def test_a_tables_members(tmp_path):
    world = support.environment(**arguments(write_table(tmp_path / "p.csv", people())))
    found = world.reward_distribution(0)
    assert found is not None
    assert float(torch.trapezoid(found.density, found.values)) == pytest.approx(1, abs=0.02)

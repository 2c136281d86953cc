"""The studies behind docs/order.md: against closed forms, and what they show, in small."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

from tests.studies.order_posterior import OrderPosterior, log_order, of_rewards, start
from tests.studies.order_worlds import NOISE, D, mean, played, ratio


def test_the_probability_of_an_order() -> None:
    """Φ of a difference for two, 1/n! if all are alike, times that of other groups; to 5 %."""
    two = np.array([[0.3, 1.5], [2.0, -1.0]])
    found = np.exp(log_order(two, np.array([[True, False]] * 2)))
    np.testing.assert_allclose(found, ndtr((two[:, 1] - two[:, 0]) / math.sqrt(2)), rtol=0.05)
    alike, first = np.zeros((1, 6)), np.array([[True, False, False, False, True, False]])
    np.testing.assert_allclose(np.exp(log_order(alike, first)), 1 / 24 / 2, rtol=0.05)


def test_the_posterior_given_one_comparison() -> None:
    """√(2/π)·z/√(2σ² + ‖z‖²) of the difference z: within six standard errors, chance below 1e-7."""
    x = np.repeat(np.arange(2.0 * D).reshape(1, 2, D) / D, 40, 0)
    posterior = OrderPosterior(40, chains=12, steps=30)
    found = posterior(x, np.zeros((40, 2), np.int64), np.tile([1.0, 0.0], (40, 1)))
    z = x[0, 0] - x[0, 1]
    expected = math.sqrt(2 / math.pi) * z / math.sqrt(2 * NOISE**2 + z @ z)
    error = found.std(0, ddof=1) / math.sqrt(40)
    assert (abs(found.mean(0) - expected) < 6 * error + 0.01).all()
    assert (error < 0.1).all()


@pytest.mark.all
def test_an_order_costs_more_than_rewards_at_the_start() -> None:
    """By 0.9 after ten rounds, with a standard error of 0.13 in 60 runs: chance below 1e-6."""
    order, rewards = (start(learner, 60, 10)[:, -1] for learner in (OrderPosterior(60), of_rewards))
    assert order.mean() > rewards.mean() + 0.2


@pytest.mark.all
def test_distortions_cost_ridge_much_and_pairs_nothing() -> None:
    """In 20 runs ridge has 15 ± 1 with distortions, and 2.4 ± 0.2 without: chance below 1e-6."""
    found = played("Gaussian", 1.0, NOISE, 0, numbers=2, rounds=300)
    assert np.array_equal(found["pairs, 1"], found["pairs, 4"])
    assert found["ridge, 4"].mean() > 3 * found["ridge, 1"].mean()
    assert found["pairs, 1"].mean() < found["ridge, 4"].mean() / 2


def test_means_and_ratios_have_their_standard_errors() -> None:
    values = np.array([1.0, 2.0, 3.0, 6.0])
    assert mean(values) == "3.00 ± 1.08"
    assert ratio(2 * values, values) == "2.00 ± 0.00"

"""Synthetic families: closed forms by hand, and what each option changes and leaves alone."""

import cmath
import math

import numpy as np
import pytest
import torch
from scipy import stats

from fairbandit import build
from fairbandit.environments import Environment, Pools
from fairbandit.errors import FairbanditError
from fairbandit.streams import Streams


def world(**options) -> Environment:
    made = build({"name": "synthetic", **options})
    assert isinstance(made, Environment)
    made.bind(Streams(0, [0, 1]))
    return made


def pools(rounds: int = 400, **options) -> Pools:
    return world(**options).pools(1, rounds)


THETA, OFFSETS, SCALES = (1.0, -1.0, 0.5, 0.5), (0.0, 1.0, -1.0, 0.5), (1.0, 0.5, 1.5, 1.0)


@pytest.mark.parametrize("drifts", ["features", "rewards", "weights"])
@pytest.mark.parametrize("link", ["identity", "logistic", "quadratic"])
def test_rewards_and_ranks_are_those_of_a_plain_computation(link, drifts):
    drawn = pools(link=link, drift=1.5, period=90.0, drifts=drifts)
    for t, group in ((1, 0), (24, 0), (70, 0), (70, 2)):
        x = drawn.contexts[1, t - 1, group].tolist()
        assert x[4:] == [float(place == group) for place in range(4)]
        wave, (a, b, *rest) = 1.5 * math.sin(2 * math.pi * (t - 1) / 90), THETA
        shift = wave if group == 0 and drifts != "weights" else 0.0
        turned = (a + 1j * b) * cmath.exp(1j * wave if drifts == "weights" else 0)
        theta = (turned.real, turned.imag, *rest)
        u = sum(w * value for w, value in zip(theta, x[:4], strict=True)) + OFFSETS[group]
        u += shift if drifts == "rewards" else 0.0
        values = stats.norm(OFFSETS[group] + shift, SCALES[group] * math.sqrt(2.5))
        expected, rank = u, values.cdf(u)
        if link == "logistic":
            expected = 1 / (1 + math.exp(-u))
        if link == "quadratic":
            expected, rank = u * u, values.cdf(abs(u)) - values.cdf(-abs(u))
        assert float(drawn.expected[1, t - 1, group]) == pytest.approx(expected, abs=1e-12)
        assert float(drawn.ranks[1, t - 1, group]) == pytest.approx(rank, abs=1e-9)


def test_the_network_is_a_sum_of_hyperbolic_tangents_plus_the_offset():
    drawn, draws = pools(link="network"), np.random.default_rng(0)
    hidden, out = draws.normal(size=(4, 16)), draws.normal(size=16)
    z = drawn.contexts[..., :4].numpy()
    expected = np.tanh(z @ hidden) @ out + np.array(OFFSETS)
    np.testing.assert_allclose(drawn.expected, expected, atol=1e-12)
    # 800 ranks of each group are uniform; another seed would be refused with the probability 4e-4
    for group in range(4):
        assert stats.kstest(drawn.ranks[..., group].flatten().numpy(), "uniform").pvalue > 1e-4


def test_dependent_candidates_correlate_and_their_groups_stay_the_same():
    # of 20,000 pairs, whose correlation has a standard error below 0.007: six of them
    for dependence in (0.0, 0.6):
        ranks = stats.norm.ppf(pools(10_000, dependence=dependence).ranks.flatten(0, 1))
        found = torch.from_numpy(ranks).T.corrcoef()[0, 1:]
        torch.testing.assert_close(found, torch.full_like(found, dependence), atol=0.043, rtol=0)


def test_heavy_tails_are_those_of_students_t():
    drawn = pools(5_000, rewards="student", tail=1.5, noise=2.0)
    noise = ((drawn.rewards - drawn.expected) / 2).flatten()
    # the seed is fixed; another would be refused with the probability 1e-4
    assert stats.kstest(noise.numpy(), stats.t(1.5).cdf).pvalue > 1e-4
    assert stats.kstest(noise.numpy(), stats.norm.cdf).pvalue < 1e-9


def test_bernoulli_rewards_have_the_true_reward_as_their_mean():
    drawn = pools(5_000, link="logistic", rewards="bernoulli")
    assert set(drawn.rewards.unique().tolist()) == {0.0, 1.0}
    # 40,000 errors with a standard deviation of at most ½: five standard errors
    assert abs(float((drawn.rewards - drawn.expected).mean())) < 5 * 0.5 / 200


def test_values_out_of_range():
    for options in (
        *({"offsets": [1.0]}, {"scales": [0.0]}, {"dependence": 1.5}, {"rewards": "bernoulli"}),
        *({"theta": [1.0], "drifts": "weights"}, {"link": "network", "drift": 1.0}),
    ):
        with pytest.raises(FairbanditError, match=r"environment"):
            world(**options)

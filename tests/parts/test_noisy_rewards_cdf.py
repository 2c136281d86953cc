"""The CDF of noisy rewards against loops, and against the bias that theory predicts."""

import math

import numpy as np
import pytest
import torch

from fairbandit import Policy, build
from fairbandit.parts import NoisyRewardsCdf
from tests import support
from tests.parts.asking import World, ask, awkward


@pytest.mark.parametrize("split", ["full", "halves"])
@pytest.mark.parametrize("last", [1, 6])
def test_the_formula(split: str, last: int) -> None:
    drawn = 0
    for seed in range(4):
        given = awkward(seed)
        index, asked = ask(NoisyRewardsCdf(), given, last=last, split=split)
        scores, draw = asked.scores, asked.uniform()
        for b, n, a in np.ndindex(*index.shape):
            group, score = int(asked.groups[b, n, a]), float(scores[b, n, a])
            rewards = [
                float(given.rewards[b, s - 1])
                for s in range(int(asked.division.start[n]) + 1, int(asked.division.stop[n]) + 1)
                if int(given.groups[b, s - 1, int(given.picks[b, s - 1])]) == group
            ]
            if group < 0 or not rewards:
                drawn += 1
                assert index[b, n, a] == draw[b, n, a]
            else:
                assert float(index[b, n, a]) == sum(r <= score for r in rewards) / len(rewards)
    assert drawn > 0


@pytest.mark.parametrize("noise", [0.0, 1.0, 3.0])
def test_noise_biases_it_as_predicted(noise: float) -> None:
    """At the true θ, with picks at random, it goes to the CDF of rewards with their noise.

    Rewards are standard normal, so with noise the CDF is Φ(s/√(1 + σ²)), not Φ(s). Each of 5
    samples of 4,000 picks is further than the DKW bound from it with probability at most 1e-4;
    and further from Φ than the bias less that bound.
    """
    b, n, places = 5, 4000, 31
    draws = np.random.default_rng(int(noise))
    x = torch.zeros(b, n + 1, places, 1, dtype=torch.float64)
    x[:, :n, 0, 0] = torch.from_numpy(draws.normal(size=(b, n)))
    x[:, n, :, 0] = torch.linspace(-3, 3, places)
    groups = torch.full((b, n + 1, places), -1)
    groups[:, :, 0] = 0
    groups[:, n] = 0
    rewards = x[:, :, 0, 0] + noise * torch.from_numpy(draws.normal(size=(b, n + 1)))
    theta = torch.ones(b, n + 1, 1, dtype=torch.float64)
    index, asked = ask(NoisyRewardsCdf(), World(x, groups, theta, rewards))
    dkw = math.sqrt(math.log(2 / 1e-4) / (2 * n))
    limit = torch.special.ndtr(asked.scores / math.sqrt(1 + noise**2))
    assert float((index - limit).abs().max()) <= dkw
    bias = float((limit - torch.special.ndtr(asked.scores)).abs().max())
    off = (index - torch.special.ndtr(asked.scores)).abs().amax((1, 2))
    assert bool((off >= bias - dkw).all())
    assert noise == 0 or bias > 2 * dkw


def test_it_decides_round_by_round() -> None:
    made = build({"split": "halves", "estimator": "ridge", "rank": "noisy_rewards_cdf"})
    assert isinstance(made, Policy)
    support.actions(made, support.environment(), 20)
    assert list(support.blocks(made, 20)) == [(t, t + 1) for t in range(20)]

"""The shrunk CDF against its formula, its two ends, and its purpose: rare groups."""

import numpy as np
import pytest
import torch

from fairbandit import FairbanditError
from fairbandit.parts import Division, EmpiricalCdf, ShrunkCdf
from tests.parts.asking import Array, World, ask, awkward, window, world


def standardised(values: Array, of: Array) -> Array:
    """0 for members of a group without spread, and beyond everyone off it."""
    mean, deviation = np.mean(of), np.std(of)
    above = values - mean
    if deviation > 1e-12:
        return above / deviation
    return np.where(np.abs(above) < 1e-12, 0.0, np.copysign(np.inf, above))


def expected(
    given: World, b: int, round_: int, division: Division, n: int, group: int, score: float
) -> tuple[float, float, int] | None:
    """The group's own and the pooled CDF at a score, and the group's size."""
    samples = [window(given, b, round_, division, n, g) for g in range(3)]
    own = samples[group]
    if group < 0 or len(own) == 0:
        return None
    slack = 1e-12
    at = standardised(np.array([score]), own)[0]
    count = np.count_nonzero(own <= score + slack)
    below, everyone = count, len(own)
    for g, old in enumerate(samples):
        if g != group and len(old):
            below += np.count_nonzero(standardised(old, old) <= at + slack)
            everyone += len(old)
    return count / len(own), below / everyone, len(own)


@pytest.mark.parametrize("split", ["full", "halves"])
@pytest.mark.parametrize("prior", [0.0, 3.0, 1e12])
@pytest.mark.parametrize("integers", [False, True])
def test_the_formula(split: str, prior: float, integers: bool) -> None:
    for seed in range(4):
        given = awkward(seed, integers=integers)
        index, asked = ask(ShrunkCdf(prior=prior), given, last=6, split=split)
        scores, draw = asked.scores, asked.uniform()
        for b, n, a in np.ndindex(*index.shape):
            group, score = int(asked.groups[b, n, a]), float(scores[b, n, a])
            parts = expected(given, b, asked.first + n, asked.division, n, group, score)
            if parts is None:
                assert index[b, n, a] == draw[b, n, a]
                continue
            own, pooled, size = parts
            weight = size / (size + prior)
            wanted = weight * own + (1 - weight) * pooled
            assert float(index[b, n, a]) == pytest.approx(wanted, abs=1e-11)


@pytest.mark.parametrize("integers", [False, True])
def test_no_prior_is_the_empirical_cdf(integers: bool) -> None:
    given = awkward(1, integers=integers)
    ranks = (ShrunkCdf(prior=0.0), EmpiricalCdf())
    one, other = (ask(rank, given, last=8)[0] for rank in ranks)
    assert torch.equal(one, other)


def test_it_does_not_care_for_the_units_of_a_group() -> None:
    """Scores of one group moved and stretched leave every index as it was."""
    given = awkward(6)
    before = ask(ShrunkCdf(), given, last=4)[0]
    x = torch.cat([given.contexts, torch.zeros_like(given.contexts[..., :1])], 3)
    x[given.groups == 1] *= 3
    x[given.groups == 1, -1] = 1.0
    theta = torch.cat([given.theta, torch.full_like(given.theta[..., :1], 7.0)], 2)
    after = ask(ShrunkCdf(), World(x, given.groups, theta, given.rewards), last=4)[0]
    torch.testing.assert_close(after, before, rtol=0, atol=1e-12)


def rare(b: int, few: int, many: int, seed: int) -> World:
    """Group 0 has few members, groups 1 and 2 have many, all of one shape in other units."""
    draws = np.random.default_rng(seed)
    n, places = few + 2 * many, 21
    kind = np.repeat([0, 1, 2], [few, many, many])
    score = draws.exponential(size=(b, n)) * np.array([1.0, 5.0, 0.2])[kind] + 3.0 * kind
    x, groups = np.zeros((b, n + 1, places)), np.full((b, n + 1, places), -1)
    x[:, :n, 0], groups[:, :n, 0] = score, kind
    x[:, n], groups[:, n] = np.linspace(0.1, 3, places), 0
    return world(torch.from_numpy(x)[..., None], torch.from_numpy(groups))


@pytest.mark.parametrize("few", [2, 5, 20])
def test_a_rare_group_gains_where_shapes_agree(few: int) -> None:
    """A tenth less mean squared error against the CDF 1 − exp(−s); 300 samples, fixed seed."""
    given = rare(300, few, many=100, seed=few)
    truth = 1 - torch.exp(-given.contexts[:, -1:, :, 0])
    errors = [
        float(((ask(rank, given)[0] - truth) ** 2).mean()) for rank in (ShrunkCdf(), EmpiricalCdf())
    ]
    assert errors[0] < 0.9 * errors[1]


def test_a_bias_vanishes_as_the_group_grows() -> None:
    """With other shapes the index is at most 1 − w = p/(n + p) from the empirical one."""
    given = rare(3, 400, many=100, seed=9)
    given.contexts[:, 400:-1] **= 3
    one, other = (ask(rank, given)[0] for rank in (ShrunkCdf(), EmpiricalCdf()))
    gap = float((one - other).abs().max())
    assert 0 < gap <= 20 / 420


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_prior_out_of_range(value: float) -> None:
    with pytest.raises(FairbanditError, match="prior must be at least 0 and finite, got"):
        ShrunkCdf(prior=value)

"""The smoothed CDF against its formula, its theory, and the empirical CDF that it replaces."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from fairbandit import FairbanditError
from fairbandit.parts import EmpiricalCdf, SmoothedCdf
from tests.parts.asking import ask, awkward, window, world


def phi(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2))


@pytest.mark.parametrize("split", ["full", "halves"])
@pytest.mark.parametrize("bandwidth", [0.3, 1.0])
def test_the_formula(split: str, bandwidth: float) -> None:
    for seed in range(4):
        given = awkward(seed)
        index, asked = ask(SmoothedCdf(bandwidth=bandwidth), given, last=6, split=split)
        scores, draw, smoothed = asked.scores, asked.uniform(), 0
        for b, n, a in np.ndindex(*index.shape):
            group = int(asked.groups[b, n, a])
            old = window(given, b, asked.first + n, asked.division, n, group)
            if group < 0 or len(old) == 0:
                assert index[b, n, a] == draw[b, n, a]
                continue
            score = float(scores[b, n, a])
            expected = float(np.mean(old <= score))
            if len(old) > 1:
                h = bandwidth * 4 ** (1 / 3) * np.std(old, ddof=1) * len(old) ** (-1 / 3)
                expected = float(np.mean([phi((score - one) / h) for one in old]))
                smoothed += 1
            assert float(index[b, n, a]) == pytest.approx(expected, abs=1e-12)
        assert smoothed > 30


def test_equal_scores_count_as_in_the_empirical_cdf() -> None:
    """Where the bandwidth is rounding: below, at (within rounding) and above the only score."""
    past = torch.full((1, 7, 5), 0.3, dtype=torch.float64)
    past[0, :6, 1] += 2**-54  # some are a rounding higher
    past[0, 6] = torch.tensor([0.3, 0.1 + 0.2, 0.3 - 1e-9, 0.3 + 1e-9, 0.3], dtype=past.dtype)
    given = world(past[..., None], torch.zeros(1, 7, 5).long())
    rank = SmoothedCdf()
    index, asked = ask(rank, given)
    assert index.flatten().tolist() == [1, 1, 0, 1, 1]
    assert torch.equal(index, ask(EmpiricalCdf(), given)[0])
    assert torch.equal(rank.upper_index(index, asked), index)


def test_a_model_that_knows_nothing_ties_everyone() -> None:
    given = awkward(3)
    given.theta.zero_()
    index, asked = ask(SmoothedCdf(), given)
    assert bool((index[asked.past.count > 0] == 1).all())


def test_the_same_person_twice_ties() -> None:
    """Scores a few roundings apart tie, and different people do not."""
    draws = np.random.default_rng(4)
    x = torch.from_numpy(draws.normal(size=(1, 60, 3, 1)))
    x[0, -1, 1] = x[0, -1, 0] * (1 + 2**-51)
    rank = SmoothedCdf()
    index, asked = ask(rank, world(x, torch.zeros(1, 60, 3).long()))
    tie = rank.upper_index(index, asked)[0, 0]
    one, other, third = index[0, 0].tolist()
    assert tie[0] >= other
    assert tie[1] >= one
    assert (tie[2] >= one) == (third > one)
    assert float((tie - index[0, 0]).max()) < 1e-13


def normals(b: int, n: int, seed: int) -> tuple[Tensor, Tensor]:
    """B samples of n standard normal scores, and 41 candidates from −2 to 2 after each."""
    draws = np.random.default_rng(seed)
    places = 41
    x = torch.linspace(-2, 2, places, dtype=torch.float64).expand(b, 1, places)
    old = torch.from_numpy(draws.normal(size=(b, n, 1)))
    x = torch.cat([torch.cat([old, old.new_zeros(b, n, places - 1)], 2), x], 1)
    groups = torch.full(x.shape, -1)
    groups[:, :, 0] = 0
    groups[:, -1] = 0
    return x[..., None], groups


@pytest.mark.parametrize("n", [50, 500, 5000])
def test_it_converges_to_the_cdf(n: int) -> None:
    """sup |F̂ − F| ≤ √(ln(2/δ)/(2n)) + h²/2·sup|f′|.

    Smoothing is a mean over shifts, so it brings two CDFs no further apart (DKW), and the CDF
    that it leads to is off by at most h²/2·sup|f′| (Taylor), which is φ(1)·h²/2 for the standard
    normal. Each of 5 samples breaks the bound with probability at most 1e-4.
    """
    given = world(*normals(5, n, seed=n))
    index, asked = ask(SmoothedCdf(), given)
    error = (index - torch.special.ndtr(asked.scores)).abs().amax((1, 2))
    deviation = given.contexts[:, :-1, 0, 0].std(1)
    width = 4 ** (1 / 3) * deviation * n ** (-1 / 3)
    bias = width**2 / 2 * math.exp(-0.5) / math.sqrt(2 * math.pi)
    assert bool((error <= math.sqrt(math.log(2 / 1e-4) / (2 * n)) + bias).all())


def test_it_errs_less_than_the_empirical_cdf() -> None:
    """A fifth less mean squared error at n = 10 for normal scores; 400 samples, fixed seed."""
    given = world(*normals(400, 10, seed=1))
    truth = torch.special.ndtr(given.contexts[:, -1:, :, 0])
    errors = [
        float(((ask(rank, given)[0] - truth) ** 2).mean())
        for rank in (SmoothedCdf(), EmpiricalCdf())
    ]
    assert errors[0] < 0.8 * errors[1]


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_bandwidth_out_of_range(value: float) -> None:
    with pytest.raises(FairbanditError, match="bandwidth must be above 0 and finite, got"):
        SmoothedCdf(bandwidth=value)

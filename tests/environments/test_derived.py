"""Candidates in their order of arrival, and distorted rewards, of any other environment."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fairbandit import FairbanditError
from fairbandit.environments import CensusGender
from fairbandit.registry import completed
from fairbandit.streams import Streams
from tests import support

SMALL: dict[str, Any] = {"name": "simulation", "groups": 2, "noise": 0.3}
SMALL["theta"] = [0.5, 0.5, 1.0, 0.2, 0.0]
CENSUS: dict[str, Any] = {"name": "census_gender", "root": "sample"}


def drawn(rounds: int, **given: Any) -> Any:
    world = support.environment("arrivals", **given)
    world.bind(Streams(3, range(2)))
    assert torch.equal(world.pools(2, 1).ranks, world.pools(1, rounds).ranks[:, 1:2])
    return world.pools(1, rounds)


def test_candidates_are_those_of_the_base() -> None:
    pools = drawn(200, join=3)
    base = support.environment()
    base.bind(Streams(3, range(2)))
    plain = base.pools(1, 600)
    for name in ("rewards", "expected", "ranks"):
        together = vars(plain)[name].unflatten(1, (200, 3)).flatten(2)
        assert torch.equal(together.sort(2).values, vars(pools)[name].sort(2).values)
    assert base.truth is not None  # a place has the reward of its own context
    score = base.truth.score(pools.contexts, pools.groups, torch.tensor(1))
    torch.testing.assert_close(score, pools.expected)
    for place in (0, 11):  # of 400 candidates, a quarter is of each group: six standard errors
        counts = pools.groups[..., place].flatten().bincount(minlength=4)
        assert bool(((counts - 100).abs() < 6 * 75**0.5).all())


def test_trends_and_numbers() -> None:
    for trend in (-1.0, 1.0):
        ranks = drawn(50, trend=trend).ranks
        assert bool((trend * ranks.diff(dim=2) <= 0).all())
    groups = drawn(500, join=2, least=3).groups
    sizes = (groups >= 0).sum(2)
    assert bool(((groups[..., 1:] < 0) | (groups[..., :-1] >= 0)).all())
    assert sizes.unique().tolist() == [3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("given", [{"join": 0}, {"trend": 2.0}, {"least": 9}])
def test_values_out_of_range_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(FairbanditError, match="join of at least 1, trend from -1"):
        support.environment("arrivals", **given)


def test_true_rewards_are_means_over_the_noise() -> None:
    """exp(s + σ²/2), s³ + 3sσ², with scale 2; the base's pools and ranks are kept."""
    world = support.environment("distorted", base=SMALL, functions=["exp", "cube"], scale=2.0)
    base = support.environment(**SMALL)
    for one in (world, base):
        one.bind(Streams(0, range(2)))
    assert world.truth is not None
    assert world.truth.theta is None
    pools, plain = world.pools(1, 50), base.pools(1, 50)
    y, s, var = 2 * plain.rewards, 2 * plain.expected, 0.6**2
    torch.testing.assert_close(pools.rewards[..., 0], y[..., 0].exp())
    torch.testing.assert_close(pools.rewards[..., 1], y[..., 1] ** 3)
    torch.testing.assert_close(pools.expected[..., 0], (s[..., 0] + var / 2).exp())
    torch.testing.assert_close(pools.expected[..., 1], s[..., 1] ** 3 + 3 * s[..., 1] * var)
    assert torch.equal(pools.ranks, plain.ranks)
    same: Any = support.environment("distorted", base=SMALL, functions=["identity"], scale=3.0)
    assert same.truth.linear_theta().tolist() == SMALL["theta"]
    cdf = world.truth.cdf(pools.groups, pools.expected, torch.ones(1, dtype=torch.int64))
    torch.testing.assert_close(cdf, pools.ranks)


def test_noise_of_tables_is_averaged_over_its_quantiles() -> None:
    """Within 0.01, beyond five standard errors, of the mean reward: chance below 1e-6."""
    world: Any = support.environment("distorted", base=CENSUS, functions=["logistic"])
    world.bind(Streams(1, range(20)))
    pools = world.pools(1, 500)
    off = pools.rewards - pools.expected
    assert abs(float(off.mean())) < 5 * float(off.std()) / off.numel() ** 0.5 + 0.01
    assert world.fingerprint({"base": CENSUS}) == CensusGender.fingerprint(
        completed("environment", CENSUS)
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"functions": ["log"]}, "expected some of identity, exp"),
        ({"scale": 0.0}, "scale must be above 0"),
        ({"base": "nowhere"}, "unknown environment 'nowhere'"),
    ],
)
def test_what_cannot_be_distorted_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(FairbanditError, match=message):
        support.environment("distorted", **given)

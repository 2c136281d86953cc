"""Biased groups: values by hand, and two truths about the same pools."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fairbandit import FairbanditError
from fairbandit.environments import Pools
from fairbandit.registry import create
from fairbandit.streams import Streams
from tests import support

THETA = [1.0, -1.0, 0.5, 0.5]
LEADS, OFFSETS = [2.0, 0.0, 0.0, -1.0], [-2.0, 0.0, 0.0, 1.0]


def pools(**given: Any) -> Pools:
    world = support.environment("biased", **given)
    world.bind(Streams(0, [0, 1]))
    return world.pools(1, 2000)


def test_the_values_are_those_of_a_plain_computation() -> None:
    """Of 4,000 values each mean is within five standard errors."""
    drawn, other = pools(), pools(biased="features")
    u = drawn.contexts.numpy() @ np.array(THETA)
    spread = math.sqrt(sum(weight**2 for weight in THETA))
    np.testing.assert_allclose(u.mean((0, 1)), LEADS, atol=5 * spread / math.sqrt(4000))
    np.testing.assert_allclose(u.std((0, 1)), spread, rtol=5 / math.sqrt(8000))
    noise = drawn.rewards.numpy() - u - OFFSETS
    np.testing.assert_allclose(noise.mean((0, 1)), 0, atol=5 * 0.5 / math.sqrt(4000))
    np.testing.assert_allclose(drawn.expected, u, atol=1e-12)
    np.testing.assert_allclose(drawn.ranks, stats.norm(LEADS, spread).cdf(u), atol=1e-12)
    np.testing.assert_allclose(other.expected, u + OFFSETS, atol=1e-12)
    np.testing.assert_allclose(other.ranks, drawn.ranks, atol=1e-12)


def test_what_a_policy_sees_does_not_tell_what_is_biased() -> None:
    drawn, other = pools(), pools(biased="features")
    for part in ("contexts", "groups", "rewards"):
        assert (vars(drawn)[part] == vars(other)[part]).all()


def test_values_out_of_range_are_refused() -> None:
    with pytest.raises(FairbanditError, match="as many offsets as leads"):
        support.environment("biased", offsets=[1.0, 2.0])
    with pytest.raises(FairbanditError, match="debiased takes shared=slopes"):
        create("estimator", {"name": "group_ridge", "shared": "nothing", "debiased": True})

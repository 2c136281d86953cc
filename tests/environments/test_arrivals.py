"""Candidates in their order of arrival: those of the base, in any order, or the best first."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fairbandit import FairbanditError
from fairbandit.streams import Streams
from tests import support


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
    assert world_of(pools).truth is not None
    for place in (0, 11):  # of 400 candidates, a quarter is of each group: six standard errors
        counts = pools.groups[..., place].flatten().bincount(minlength=4)
        assert bool(((counts - 100).abs() < 6 * 75**0.5).all())


def world_of(pools: Any) -> Any:
    """A place has the reward of its own context."""
    world = support.environment()
    assert world.truth is not None
    score = world.truth.score(pools.contexts, pools.groups, torch.tensor(1))
    torch.testing.assert_close(score, pools.expected)
    return world


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

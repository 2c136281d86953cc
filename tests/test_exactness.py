"""However past contexts are counted, decisions are the same.

`python -m tests.exactness` shows the same over long runs.
"""

from itertools import product
from typing import Any

import pytest
import torch

from fairbandit.environments import Environment
from tests import support
from tests.exactness import Way, decisions, fair_greedy

CORNERS = list(product((1e-8, 1.0), (1e-8, 10.0)))
"""Of the injected noise ρ and the regularization λ."""

WORLDS = ["simulation", "census_gender", "census_ethnicity"]


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Environment:
    kind = request.param
    if kind == "simulation":
        return support.environment()
    return support.census(kind)


def alike(settings: dict[str, Any], world: Environment, rounds: int, **how: Any) -> None:
    """Decisions with the sorted segment wherever it can be used are those without it, ranks too.

    Equal ranks say more: a count that is off by one seldom changes a decision.
    """
    scanned = decisions(settings, world, rounds, [0, 1], Way.scanned, **how)
    forced = decisions(settings, world, rounds, [0, 1], Way.forced, **how)
    assert scanned.answered == scanned.sortings == 0
    assert forced.answered > forced.asked / 3
    assert 4 < forced.sortings < forced.answered
    assert torch.equal(scanned.actions, forced.actions)
    assert torch.equal(scanned.ranked, forced.ranked)


@pytest.mark.parametrize(("noise", "regularization"), CORNERS)
@pytest.mark.parametrize("world", WORLDS, indirect=True)
def test_blocks(world: Environment, noise: float, regularization: float) -> None:
    alike(fair_greedy(noise, regularization), world, 1500)


@pytest.mark.parametrize("world", WORLDS, indirect=True)
def test_replicas_together(world: Environment) -> None:
    alike(fair_greedy(1e-8, 0.1), world, 1500, replicas=3)


@pytest.mark.parametrize("world", WORLDS, indirect=True)
def test_the_dense_reference(world: Environment) -> None:
    """In blocks and round by round, with little noise and much."""
    for at_once, rounds, noise in ((None, 600, 1e-8), (1, 120, 1.0)):
        settings = fair_greedy(noise, 0.1)
        dense, forced = (
            decisions(settings, world, rounds, [0], way, replicas=2, at_once=at_once)
            for way in (Way.dense, Way.forced)
        )
        assert dense.asked == 0 < forced.answered
        assert torch.equal(dense.actions, forced.actions)
        assert torch.equal(dense.ranked, forced.ranked)


@pytest.mark.parametrize("split", ["halves", "full"])
@pytest.mark.parametrize("world", WORLDS, indirect=True)
def test_round_by_round(world: Environment, split: str) -> None:
    """A few candidates at a time are counted in another way, beside the sorted segment too."""
    alike({**fair_greedy(1e-8, 1e-8), "split": split}, world, 250, at_once=1)


@pytest.mark.parametrize("noise", [1e-8, 1.0])
def test_where_it_pays(noise: float) -> None:
    """As it is used by itself: given up and taken up again, now and then."""
    world, settings = support.environment(), fair_greedy(noise, 0.1)
    scanned, searched = (
        decisions(settings, world, 24_000, [3], way) for way in (Way.scanned, Way.searched)
    )
    assert 0 < searched.answered < searched.asked
    assert torch.equal(scanned.actions, searched.actions)
    assert torch.equal(scanned.ranked, searched.ranked)

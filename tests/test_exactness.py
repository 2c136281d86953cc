"""However past contexts are counted, decisions are the same."""

from contextlib import ExitStack
from enum import Enum
from itertools import product
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from fairbandit import Policy, build
from fairbandit.counting import DenseStore, sorted_segment
from fairbandit.counting.sorted_segment import Costs, SortedCounts
from fairbandit.environments import Environment
from fairbandit.parts import Candidates, Rank
from tests import support
from tests.counting.test_against_dense import free


class Way(Enum):
    """How past contexts are counted."""

    dense = "by the dense reference"
    scanned = "by scanning"
    searched = "by the sorted segment where it pays"
    forced = "by the sorted segment wherever it can"


class Decisions(NamedTuple):
    """What was decided, (S·B, T), by which ranks, and how often the sorted segment gave counts."""

    actions: Tensor
    ranked: Tensor
    asked: int
    answered: int


def decisions(
    way: Way,
    world: Environment,
    rounds: int,
    *,
    noise: float = 1e-8,
    regularization: float = 0.1,
    split: str = "halves",
    replicas: int = 2,
    at_once: int | None = None,
) -> Decisions:
    """Plays Fair-Greedy."""
    estimator = {"name": "ridge", "noise": noise, "regularization": regularization}
    chosen = build({"split": split, "estimator": estimator, "rank": "empirical_cdf"})
    assert isinstance(chosen, Policy)
    counted, ask, rank = [0, 0], SortedCounts.count_le, Rank.index
    seen: dict[int, Tensor] = {}

    def count_le(self: SortedCounts, *given: Any, **named: Any) -> Tensor | None:
        counts = None if way is Way.scanned else ask(self, *given, **named)
        counted[0] += 1
        counted[1] += counts is not None
        return counts

    def index(self: Rank, candidates: Candidates) -> Tensor:
        found = rank(self, candidates)
        seen.update(enumerate(found.unbind(1), candidates.first))  # a round's last counts
        return found

    with ExitStack() as stack:
        stack.enter_context(patch.object(Rank, "index", index))
        stack.enter_context(patch.object(SortedCounts, "count_le", count_le))
        if way is Way.dense:
            stack.enter_context(patch("fairbandit.parts.past.ContextStore", DenseStore))
        if way is Way.forced:
            stack.enter_context(patch.object(Costs, "of", free))
            stack.enter_context(patch.object(sorted_segment, "SHORTEST", 16))
        actions = support.actions(chosen, world, rounds, replicas, at_once=at_once)
    ranked = torch.stack([seen[t] for t in sorted(seen)], 1)
    return Decisions(actions, ranked, *counted)


def alike(one: Decisions, other: Decisions) -> None:
    """Equal ranks say more: a count that is off by one seldom changes a decision."""
    assert torch.equal(one.actions, other.actions)
    assert torch.equal(one.ranked, other.ranked)


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Environment:
    return support.world_of(request.param)


everywhere = pytest.mark.parametrize("world", support.KINDS, indirect=True)


@everywhere
@pytest.mark.parametrize(("noise", "regularization"), [*product((1e-8, 1.0), (1e-8, 10.0))])
def test_a_segment_that_is_sorted_once(
    world: Environment, noise: float, regularization: float
) -> None:
    how: dict[str, Any] = {"noise": noise, "regularization": regularization}
    scanned, forced = (decisions(way, world, 1500, **how) for way in (Way.scanned, Way.forced))
    assert scanned.answered == 0
    assert forced.answered > forced.asked / 3
    alike(scanned, forced)


@everywhere
@pytest.mark.parametrize("split", ["halves", "full"])
def test_round_by_round(world: Environment, split: str) -> None:
    """A few candidates at a time are counted in another way, beside the sorted segment too."""
    how: dict[str, Any] = {"regularization": 1e-8, "split": split, "at_once": 1}
    scanned, forced = (decisions(way, world, 250, **how) for way in (Way.scanned, Way.forced))
    assert forced.answered > forced.asked / 3
    alike(scanned, forced)


@everywhere
@pytest.mark.parametrize(
    ("at_once", "rounds", "noise"), [(None, 600, 1e-8), (1, 120, 1.0)], ids=["blocks", "rounds"]
)
def test_the_dense_reference(
    world: Environment, at_once: int | None, rounds: int, noise: float
) -> None:
    dense, forced = (
        decisions(way, world, rounds, noise=noise, at_once=at_once)
        for way in (Way.dense, Way.forced)
    )
    assert dense.asked == 0 < forced.answered
    alike(dense, forced)


def test_where_it_pays() -> None:
    """As it is used by itself: given up and taken up again, now and then."""
    scanned, searched = (
        decisions(way, support.environment(), 24_000, noise=1.0, replicas=1)
        for way in (Way.scanned, Way.searched)
    )
    assert 0 < searched.answered < searched.asked
    alike(scanned, searched)

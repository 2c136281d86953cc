"""However past contexts are counted, decisions are the same."""

import math
from contextlib import ExitStack
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from fairbandit.counting import PastScores
from fairbandit.environments import Environment
from fairbandit.estimators.ties import Approximate
from fairbandit.policy.build import build_policy
from fairbandit.ranks import Rank, Scored
from tests import support
from tests.counting.dense import DenseContexts, DensePastScores
from tests.counting.test_against_dense import ways


class Decisions(NamedTuple):
    """What was decided, (B, T), by which ranks, and how often the sorted segment gave counts."""

    actions: Tensor
    ranked: Tensor
    asked: int
    answered: int


def decisions(
    way: str,
    world: Environment,
    rounds: int,
    *,
    split: str = "halves",
    replicas: int = 2,
    at_once: int | None = None,
    **ridge: Any,
) -> Decisions:
    """Plays Fair-Greedy.

    Past contexts are counted by the dense reference ("dense"), by scanning ("scanned"), by the
    sorted segment where it pays ("searched"), or by it wherever it can ("forced").
    """
    estimator = {"name": "ridge", **ridge}
    chosen = build_policy({"split": split, "estimator": estimator, "rank": "empirical_cdf"})
    ask, rank = PastScores._count_sorted, Rank.index
    answers, seen = list[bool](), dict[int, Tensor]()

    def count_sorted(self: PastScores, *given: Any) -> Tensor | None:
        counts = ask(self, *given)
        answers.append(counts is not None)
        return counts

    def index(self: Rank, scored: Scored) -> Approximate:
        found = rank(self, scored)
        seen.update(zip(scored.rounds.tolist(), found.value.unbind(1), strict=True))
        return found

    with ExitStack() as stack:
        stack.enter_context(patch.object(Rank, "index", index))
        stack.enter_context(patch.object(PastScores, "_count_sorted", count_sorted))
        stack.enter_context(ways(searched=way == "forced"))
        if way == "dense":
            stack.enter_context(patch("fairbandit.history.history.Contexts", DenseContexts))
            stack.enter_context(patch("fairbandit.ranks.base.PastScores", DensePastScores))
        if way == "scanned":
            stack.enter_context(ways(sliced=False))
            stack.enter_context(patch("fairbandit.counting.scores.SORTED_COST", math.inf))
        actions = support.actions(chosen, world, rounds, replicas, at_once=at_once)
    ranked = torch.stack([seen[t] for t in sorted(seen)], 1)
    return Decisions(actions, ranked, len(answers), sum(answers))


def alike(one: Decisions, other: Decisions) -> None:
    """Equal ranks say more: a count that is off by one seldom changes a decision."""
    assert torch.equal(one.actions, other.actions)
    assert torch.equal(one.ranked, other.ranked)


@pytest.mark.parametrize(
    ("kind", "noise", "regularization"),
    support.some(
        [
            ("simulation", 1e-8, 1e-8),
            ("simulation", 1.0, 10.0),
            ("census_ethnicity", 1.0, 1e-8),
            ("census_gender", 1e-8, 10.0),
        ],
        2,
    ),
)
def test_a_segment_that_is_sorted(kind: str, noise: float, regularization: float) -> None:
    world = support.world_of(kind)
    scanned, forced = (
        decisions(way, world, 1500, noise=noise, regularization=regularization)
        for way in ("scanned", "forced")
    )
    assert scanned.answered == 0
    assert forced.answered > forced.asked / 3
    alike(scanned, forced)


@pytest.mark.parametrize(
    ("kind", "at_once", "split"),
    [
        ("simulation", None, "halves"),
        ("simulation", 1, "full"),
        ("census_gender", 1, "halves"),
        ("census_ethnicity", None, "full"),
    ],
)
def test_the_dense_reference(kind: str, at_once: int | None, split: str) -> None:
    """A few candidates at a time are counted in another way, beside the sorted segment too."""
    world, rounds = support.world_of(kind), 120 if at_once or split == "full" else 600
    dense, forced = (
        decisions(way, world, rounds, split=split, at_once=at_once, noise=1e-2)
        for way in ("dense", "forced")
    )
    assert dense.asked == 0 < forced.answered
    alike(dense, forced)


@pytest.mark.all
def test_where_it_pays() -> None:
    """As it is used by itself: given up and taken up again, now and then."""
    scanned, searched = (
        decisions(way, support.environment(), 24_000, noise=1.0, replicas=1)
        for way in ("scanned", "searched")
    )
    assert 0 < searched.answered < searched.asked
    alike(scanned, searched)

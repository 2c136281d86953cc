"""Rank estimators against their formulas, their ends against the ranks that they are there."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairbandit import Policy, build
from fairbandit.conformance import Scattered
from fairbandit.estimators import LinearModel, Models
from fairbandit.estimators.ties import Approximate
from fairbandit.history import Block, History, Outcomes, Problem
from fairbandit.ranks import (
    EmpiricalCdf,
    Identity,
    NoisyRewardsCdf,
    Rank,
    RecentCdf,
    Scored,
    ShrunkCdf,
    SmoothedCdf,
    Tradeoff,
)
from fairbandit.selectors import best
from fairbandit.splits import Full, Halves, Plan, Split
from fairbandit.splits.base import Ints
from fairbandit.streams import Streams
from tests import support

ROUNDING = 1e-12


Array = NDArray[np.float64]


@dataclass
class World:
    """Pools, reward models and rewards, drawn once.

    Attributes:
        contexts: (B, T, K, d).
        groups: (B, T, K), −1 an empty place.
        theta: the model of each round, (B, T, d).
        rewards: of the picks, (B, T); round t picks the first candidate that is present.
    """

    contexts: Tensor
    groups: Tensor
    theta: Tensor
    rewards: Tensor

    @property
    def picks(self) -> Tensor:
        """The place picked in each round, (B, T)."""
        return (self.groups >= 0).to(torch.uint8).argmax(2)


def world(contexts: Tensor, groups: Tensor) -> World:
    """A world of one feature whose value is the score, without rewards."""
    b, t, _, d = contexts.shape
    return World(contexts, groups, contexts.new_ones(b, t, d), contexts.new_zeros(b, t))


def awkward(seed: int, rounds: int = 24, integers: bool = False) -> World:
    """A small world of several groups, one rare, with empty places and a new model every round.

    Args:
        seed: of the draws.
        rounds: T.
        integers: contexts and models of small integers, so that many scores tie.
    """
    draws = np.random.default_rng(seed)
    b, k, d = 2, 5, 3
    size, rough = (b, rounds, k, d), draws.integers
    contexts = rough(-2, 3, size).astype(float) if integers else draws.normal(size=size)
    groups = draws.choice([-1, 0, 1, 2], size=(b, rounds, k), p=[0.1, 0.5, 0.3, 0.1])
    groups[:, :, 0] = draws.integers(0, 2, (b, rounds))
    theta = rough(-2, 3, size).astype(float) if integers else draws.normal(size=size)
    theta = theta[:, :, 0]
    rewards = draws.normal(size=(b, rounds))
    parts = (torch.from_numpy(part) for part in (contexts, groups, theta, rewards))
    return World(*parts)


def scored(
    given: World, last: int = 1, split: type[Split] = Full, max_contexts: int | None = None
) -> Scored:
    """The last rounds of a world, decided together, as a rank sees them."""
    b, rounds, _, d = given.contexts.shape
    problem = Problem(d, int(given.groups.max()) + 1, Streams(5, range(b)))
    history = History.empty(problem, max_contexts=max_contexts)
    history = history.with_pools(given.contexts, given.groups)
    at = given.picks[..., None]
    x = given.contexts.take_along_dim(at[..., None], 2)[:, :, 0]
    groups = given.groups.take_along_dim(at, 2)[:, :, 0]
    outcomes = Outcomes(torch.arange(1, rounds + 1), x, groups, given.rewards)
    history = history.with_outcomes(outcomes)
    models = Models(LinearModel(given.theta[:, rounds - last :]), np.arange(last))
    rows = slice(rounds - last, rounds)
    block = Block.of(rounds - last + 1, given.contexts[:, rows], given.groups[:, rows])
    plan = split().plan(np.arange(rounds - last + 1, rounds + 1))
    return Scored(history._replace(open=block), plan, models)


def index(rank: Rank, given: World) -> Approximate:
    """The index of the last round of a world."""
    return rank.index(scored(given, max_contexts=rank.max_contexts))


def window(given: World, b: int, asked: Scored, at: int, group: int) -> Array:
    """The scores of a group's contexts in the window of a round, in order, by looking at each.

    Args:
        given: the world.
        b: the replica.
        asked: the rounds asked about.
        at: the position of the round among them, whose model scores.
        group: the group.
    """
    theta = given.theta[b, asked.rounds[at] - 1].numpy()
    start, stop = (int(end[at]) for end in asked.rank_window)
    scores = [
        float(given.contexts[b, s - 1, a].numpy() @ theta)
        for s in range(start + 1, stop + 1)
        for a in range(given.groups.shape[2])
        if int(given.groups[b, s - 1, a]) == group
    ]
    return np.array(scores)


class Case(NamedTuple):
    """What a formula reads: past scores by group, past rewards of the group's picks, its own."""

    past: list[Array]
    rewards: Array
    group: int
    score: float
    draw: float

    @property
    def own(self) -> Array:
        return self.past[self.group]


def empirical(case: Case, own: Array) -> float:
    """The share of past scores that are no higher; a draw for a group without any."""
    return float(np.mean(own <= case.score + ROUNDING)) if len(own) else case.draw


def noisy_rewards(case: Case) -> float:
    return empirical(case, case.rewards)


def smoothed(case: Case, bandwidth: float) -> float:
    n = len(case.own)
    if n < 2:
        return empirical(case, case.own)
    h = bandwidth * 4 ** (1 / 3) * np.std(case.own, ddof=1) * n ** (-1 / 3)
    return float(np.mean([0.5 * math.erfc((one - case.score) / h / 2**0.5) for one in case.own]))


def shrunk(case: Case, prior: float) -> float:
    """n/(n + p) times the group's CDF, the rest that of all groups in units of their own."""

    def units(values: Array, of: Array) -> Array:
        above = values - np.mean(of)
        if np.std(of) > ROUNDING:
            return np.asarray(above / np.std(of))
        return np.where(np.abs(above) < ROUNDING, 0.0, np.copysign(np.inf, above))

    if not len(case.own):
        return case.draw
    at = units(np.array([case.score]), case.own)[0]
    count = np.count_nonzero(case.own <= case.score + ROUNDING)
    others = [old for g, old in enumerate(case.past) if g != case.group and len(old)]
    below = count + sum(np.count_nonzero(units(old, old) <= at + ROUNDING) for old in others)
    pooled = below / (len(case.own) + sum(map(len, others)))
    weight = len(case.own) / (len(case.own) + prior)
    return float(weight * count / len(case.own) + (1 - weight) * pooled)


def tradeoff(case: Case, alpha: float) -> float:
    everyone = np.concatenate(case.past)
    standard = (case.score - np.mean(everyone)) / np.std(everyone)
    return float((1 - alpha) * empirical(case, case.own) + alpha * standard)


FORMULAS: list[tuple[Rank, Callable[[Case], float]]] = [
    (NoisyRewardsCdf(), noisy_rewards),
    *((RecentCdf(size=m), lambda c, m=m: empirical(c, c.own[-m:])) for m in (1, 3, 8)),
    *((SmoothedCdf(bandwidth=h), lambda c, h=h: smoothed(c, h)) for h in (0.3, 1.0)),
    *((ShrunkCdf(prior=p), lambda c, p=p: shrunk(c, p)) for p in (0.0, 3.0, 1e12)),
    *((Tradeoff(alpha=a), lambda c, a=a: tradeoff(c, a)) for a in (0.0, 0.3, 1.0)),
]


@pytest.mark.parametrize(("split", "last"), [(Full, 6), (Halves, 1)])
@pytest.mark.parametrize(("rank", "formula"), FORMULAS, ids=lambda one: type(one).__name__)
def test_the_formula(
    rank: Rank, formula: Callable[[Case], float], split: type[Split], last: int
) -> None:
    for seed in range(2):
        # a smoothed score may lie within rounding of a tie, and is no share then
        given = awkward(seed, integers=seed % 2 == 0 and isinstance(rank, RecentCdf | ShrunkCdf))
        asked = scored(given, last, split, rank.max_contexts)
        index, scores = rank.index(asked).value, asked.scores.value
        draw = asked.drawn_where(asked.present, scores)
        for b, n, a in asked.present.nonzero().tolist():
            group = int(asked.groups[b, n, a])
            past = [window(given, b, asked, n, g) for g in range(3)]
            picks = given.groups[b].gather(1, given.picks[b][:, None])[:, 0]
            start, stop = (int(end[n]) for end in asked.rank_window)
            rewards = given.rewards[b, start:stop][picks[start:stop] == group].numpy()
            case = Case(past, rewards, group, float(scores[b, n, a]), float(draw[b, n, a]))
            assert float(index[b, n, a]) == pytest.approx(formula(case), abs=1e-10)


def policy(rank: Any, split: str = "halves", estimator: str = "ridge") -> Policy:
    made = build({"split": split, "estimator": estimator, "rank": rank})
    assert isinstance(made, Policy)
    return made


ENDS: list[tuple[dict[str, Any], str]] = [
    ({"name": "tradeoff", "alpha": 0.0}, "empirical_cdf"),
    ({"name": "tradeoff", "alpha": 1.0}, "identity"),
    ({"name": "recent_cdf", "size": 900}, "empirical_cdf"),
    ({"name": "shrunk_cdf", "prior": 0.0}, "empirical_cdf"),
]


@pytest.mark.parametrize(("rank", "end"), ENDS)
@pytest.mark.parametrize(
    ("split", "estimator"), [("full", "ridge"), ("halves", "optimistic_ridge")]
)
def test_the_ends_decide_alike_in_every_round(
    rank: dict[str, Any], end: str, split: str, estimator: str
) -> None:
    for played, rounds in ((support.environment(), 150), (Scattered(), 100)):
        one, other = (
            support.actions(policy(each, split, estimator), played, rounds, 2, seed=4)
            for each in (rank, end)
        )
        assert torch.equal(one, other)


@pytest.mark.parametrize("integers", [False, True])
def test_ties_at_the_ends(integers: bool) -> None:
    """Who is among the best is the same: with scores that tie, and some by rounding alone."""
    for seed in range(6):
        given = awkward(seed, rounds=40, integers=integers)
        given.contexts[:, :, 3] = given.contexts[:, :, 2] * (1 + 2**-52)
        given.groups[:, :, 2:4] = 0
        for alpha, end in ((0.0, EmpiricalCdf()), (1.0, Identity())):
            asked = scored(given, last=30)
            indices = [rank.index(asked) for rank in (Tradeoff(alpha=alpha), end)]
            assert torch.equal(*(best(one, asked.present, 1) for one in indices))


def test_scores_that_do_not_differ() -> None:
    """Everyone ties, whether the model knows nothing or the bandwidth is rounding."""
    given = awkward(2)
    given.theta.zero_()
    assert bool((index(Tradeoff(alpha=1.0), given).value == 0).all())
    seen = scored(given).past.count > 0
    assert bool((index(SmoothedCdf(), given).value[seen] == 1).all())
    past = torch.full((1, 7, 5), 0.3, dtype=torch.float64)
    past[0, :6, 1] += 2**-54  # some are a rounding higher
    past[0, 6] = torch.tensor([0.3, 0.1 + 0.2, 0.3 - 1e-9, 0.3 + 1e-9, 0.3], dtype=past.dtype)
    found = index(SmoothedCdf(), world(past[..., None], torch.zeros(1, 7, 5).long()))
    assert found.value.flatten().tolist() == [1, 1, 0, 1, 1]


def samples(scores: Array, kinds: Array, at: Array) -> World:
    """Past scores (B, n) of some groups, one a round, and then candidates of group 0."""
    b, n = scores.shape
    x, groups = np.zeros((b, n + 1, len(at))), np.full((b, n + 1, len(at)), -1)
    x[:, :n, 0], groups[:, :n, 0] = scores, kinds
    x[:, n], groups[:, n] = at, 0
    return world(torch.from_numpy(x)[..., None], torch.from_numpy(groups))


def error(rank: Rank, given: World, truth: Tensor) -> float:
    return float(((index(rank, given).value - truth) ** 2).mean())


def test_the_smoothed_cdf_errs_less() -> None:
    """A fifth less mean squared error at n = 10 for normal scores; 400 samples, fixed seed."""
    draws, at = np.random.default_rng(1), np.linspace(-2, 2, 41)
    given = samples(draws.normal(size=(400, 10)), np.zeros(10), at)
    truth = torch.special.ndtr(torch.from_numpy(at))
    assert error(SmoothedCdf(), given, truth) < 0.8 * error(EmpiricalCdf(), given, truth)


@pytest.mark.parametrize("few", [2, 20])
def test_the_shrunk_cdf_helps_a_rare_group(few: int) -> None:
    """A tenth less mean squared error, where groups differ by their units; 300 samples."""
    draws, at = np.random.default_rng(few), np.linspace(0.1, 3, 21)
    kinds = np.repeat([0, 1, 2], [few, 100, 100])
    scores = draws.exponential(size=(300, len(kinds))) * np.array([1.0, 5.0, 0.2])[kinds]
    given, truth = samples(scores + 3.0 * kinds, kinds, at), torch.from_numpy(1 - np.exp(-at))
    assert error(ShrunkCdf(), given, truth) < 0.9 * error(EmpiricalCdf(), given, truth)


def test_a_split_whose_windows_end_early() -> None:
    """Of the last m contexts before the round, those in the window, in blocks as in rounds."""

    class Early(Full):
        def _divide(self, t: Ints) -> Plan:
            return super()._divide(t)._replace(rank_stop=(t - 4).clip(min=0))

    def play(at_once: int) -> Tensor:
        made = policy({"name": "recent_cdf", "size": 9}, estimator="oracle")
        made = support.replaced(made, split=Early())
        return support.actions(made, Scattered(), 60, replicas=2, at_once=at_once)

    assert torch.equal(play(64), play(1))

"""The small problem that the checks play, and helpers that play it with the part under test."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbandit import registry
from fairbandit.build import build
from fairbandit.engine import Engine
from fairbandit.environments.base import Environment, Pools, Truth
from fairbandit.errors import FairbanditError
from fairbandit.maths.grouped_cdf import GroupedCdf
from fairbandit.maths.picks import of_pick
from fairbandit.maths.ties import upper_score
from fairbandit.metrics import Played
from fairbandit.parts import Argmax, Candidates, Outcomes, Problem
from fairbandit.policy import Policy, block_end
from fairbandit.streams import GRID, Purpose, Stream, Streams

ROUNDS = 40
"""The number of rounds that a check plays by default."""

REPLICAS = 3
"""The number of replicas that a check plays by default."""

LATE = (2, 7, ROUNDS - 3)
"""The rounds whose rewards come late, in checks of late rewards."""

ASKERS = 12
"""The number of replicas in checks of what a part returns, rather than of what it decides."""

REFERENCES = {
    "split": "halves",
    "estimator": "ridge",
    "rank": "empirical_cdf",
    "selector": "argmax",
    "environment": "simulation",
    "metric": "fair_regret",
}
"""The parts that complete the policy of the part under test, and that its cost is compared to."""

Spec = str | Mapping[str, Any]
"""A part: its registered name, or a mapping with `name` and hyperparameters."""


def name_of(spec: Spec) -> str:
    """The registered name of a part."""
    return str(spec["name"]) if isinstance(spec, Mapping) else spec


class ConformanceError(FairbanditError):
    """A part does not keep the contract; the message names the fault."""


class Scattered(Environment):
    """A small problem with the awkward cases: random groups, a rare group and empty places.

    Args:
        upset_after: the rewards of later rounds are changed; None changes none.
        rare_after: the rare group appears after this round.
    """

    part_kind, part_name = "environment", "scattered"

    def __init__(self, upset_after: int | None = None, rare_after: int = 0) -> None:
        self.rare_after = rare_after
        self.features, self.places, self.group_names = 4, 6, ("often", "seldom", "rare")
        self.upset_after = upset_after
        draws = np.random.default_rng(0)
        theta = torch.from_numpy(draws.normal(size=4))
        sample = torch.from_numpy(draws.uniform(-1, 1, (500, 4))) @ theta
        self.truth = Truth(theta, GroupedCdf([sample, sample + 0.5, sample - 0.5]))

    def _pools(self, first: int, count: int) -> Pools:
        assert self.truth is not None
        k, theta = self.places, self.truth.linear_theta()
        drawn = self.streams[Purpose.POOLS].uniform(first, count, k * 5)
        contexts = 2 * drawn[..., : 4 * k].unflatten(-1, (k, 4)) - 1
        kind = drawn[..., 4 * k :]
        groups = (kind > 0.6).long() + (kind > 0.85).long()
        groups = torch.where((kind < 0.1) & (torch.arange(k) > 0), -1, groups)
        early = torch.arange(first, first + count)[:, None] <= self.rare_after
        groups = torch.where(early, groups.clamp(max=1), groups)
        expected = contexts @ theta
        rewards = expected + self.streams[Purpose.REWARDS].normal(first, count, k)
        if self.upset_after is not None:
            late = torch.arange(first, first + count) > self.upset_after
            rewards = torch.where(late[:, None], -3 * rewards, rewards)
        tops = upper_score(expected, contexts.abs() @ theta.abs())
        return Pools(contexts, groups, rewards, expected, self.truth.cdf(groups, tops))


class EvenStream(Stream):
    """A stream with one draw for all places of a round, so that candidates do not differ by it."""

    def uniform(self, first: int, count: int, width: int, shift: int = 0) -> Tensor:
        """One uniform draw a round, at each of its places: (B, count, width) float64."""
        return super().uniform(first, count, 1).repeat(1, 1, width)


class EvenStreams(Streams):
    """Streams with one draw for all places of a round."""

    def __getitem__(self, purpose: Purpose) -> Stream:
        if purpose not in self._streams:
            self._streams[purpose] = EvenStream(self.seed, self.replicas, purpose, self.device)
        return self._streams[purpose]


class Listener(Argmax):
    """`Argmax` that records every index it is given."""

    def __init__(self) -> None:
        self.heard: list[Tensor] = []

    def _weights(self, candidates: Candidates, index: Tensor) -> Tensor:
        self.heard.append(index.masked_fill(~candidates.present, 0))
        return super()._weights(candidates, index)


@dataclass(frozen=True)
class Game:
    """The decisions of a run, with the indices that they are based on.

    Attributes:
        actions: (B, T) int64.
        index: (B, T, K), zero at empty places; K is 0 where the part is a selector.
    """

    actions: Tensor
    index: Tensor

    def __getitem__(self, replicas: slice) -> Game:
        """Some of the replicas."""
        return Game(self.actions[replicas], self.index[replicas])

    def then(self, other: Game) -> Game:
        """This game and the rounds that another one adds to it."""
        return Game(
            torch.cat([self.actions, other.actions], 1), torch.cat([self.index, other.index], 1)
        )


def policy_with(kind: str, spec: Spec, split: str = "halves") -> Policy:
    """A policy of reference parts, or those that a part is `checked_with`, but for the part."""
    parts = {part: REFERENCES[part] for part in registry.PART_KINDS}
    company = registry.lookup(kind, name_of(spec)).checked_with
    made = build({**parts, "split": split, **company, kind: spec})
    assert isinstance(made, Policy)
    return made


def environment_of(spec: Spec) -> Environment:
    """An environment by its name or description."""
    made = build({"name": spec} if isinstance(spec, str) else spec)
    assert isinstance(made, Environment)
    return made


def engine_with(
    kind: str,
    spec: Spec,
    *,
    prepare: Callable[[Any], None] = lambda part: None,
    split: str = "halves",
    rounds: int = ROUNDS,
    replicas: Sequence[int] = tuple(range(REPLICAS)),
    at_once: int = GRID,
    upset_after: int | None = None,
    rare_after: int = 0,
) -> Engine:
    """An engine that plays `Scattered` with a part and records the indices.

    `prepare` is called with the part before it is bound.
    """
    policy = policy_with(kind, spec, split)
    prepare(getattr(policy, kind))
    if kind != "selector":
        policy.selector = Listener()
    world = Scattered(upset_after, rare_after)
    return Engine(policy, world, rounds=rounds, seed=1, replicas=replicas, at_once=at_once)


def play(kind: str, spec: Spec, **options: Any) -> Game:
    """Plays all rounds of an engine; the options are those of `engine_with`."""
    engine = engine_with(kind, spec, **options)
    return heard(engine, engine.play())


def heard(engine: Engine, pieces: Iterable[Played]) -> Game:
    """The decisions of an engine in the given pieces."""
    actions = torch.cat([played.actions for played in pieces], 1)
    selector = engine.policy.selector
    if not isinstance(selector, Listener):
        return Game(actions, torch.zeros(*actions.shape, 0))
    index, selector.heard = torch.cat(selector.heard, 1), []
    return Game(actions, index)


def bind(engine: Engine, problem: Problem) -> None:
    """Binds an engine that has not begun to another problem."""
    engine.policy.bind(problem)
    engine.history = engine.policy.history()


def grow(engine: Engine, problem: Problem) -> None:
    """Has an engine go on with a problem of more groups."""
    engine.policy.grow(problem)
    engine.history.grow(problem)


def scores_with(engine: Engine, late: Collection[int]) -> Tensor:
    """Scores after the first pick of every round, some rewards of which come only at the end.

    Args:
        engine: one that has not begun.
        late: the rounds of these rewards.

    Returns:
        Scores of the last round's candidates, (B, 1, K).
    """
    policy, history, pools = engine.policy, engine.history, engine.environment.pools(1, ROUNDS)
    first = (pools.groups >= 0).to(torch.uint8).argmax(2)
    picks = [of_pick(part, first) for part in (pools.contexts, pools.groups, pools.rewards)]
    outcomes = [Outcomes(*(part[:, t : t + 1] for part in picks)) for t in range(ROUNDS)]
    history.add_rounds(ROUNDS)
    for t, outcome in enumerate(outcomes, 1):
        if t not in late:
            history.add_outcomes(t, outcome)
    policy.commit(ROUNDS // 2, history)
    for t in late:
        policy.learn(t, outcomes[t - 1], history)
    last = ROUNDS, pools.contexts[:, -1:], pools.groups[:, -1:]
    candidates, _ = policy.candidates(*last, history)
    return candidates.scores


def asked(kind: str, spec: Spec, after: int = ROUNDS) -> tuple[Candidates, Policy]:
    """The next rounds of candidates after some rounds of play, as a rank is asked about them.

    Random draws are alike at all places of a round, so that candidates differ by no draw.

    Args:
        kind: the kind of the part under test.
        spec: the part.
        after: how many rounds are played before; after the first two no rank was asked yet.

    Returns:
        The candidates, of as many rounds as can be decided at once, and the policy.
    """
    engine = engine_with(kind, spec, rounds=after, replicas=range(ASKERS))
    policy = engine.policy
    policy.bind(replace(policy.problem, streams=EvenStreams(1, range(ASKERS))))
    for _ in engine.play():
        pass
    until = block_end(policy, after + ROUNDS, after)
    pools = engine.environment.pools(after + 1, until - after)
    engine.history.add_pools(pools.contexts, pools.groups)
    with policy.mode():
        candidates, _ = policy.candidates(after + 1, pools.contexts, pools.groups, engine.history)
    return candidates, policy

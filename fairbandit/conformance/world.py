"""The small problem that the checks play, and helpers that play it with the part under test."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbandit import registry
from fairbandit.engine import Engine
from fairbandit.environments.base import Environment, Pools, Truth
from fairbandit.errors import FairbanditError
from fairbandit.fixed_point import block_end
from fairbandit.maths.grouped_cdf import GroupedCdf
from fairbandit.maths.picks import of_pick
from fairbandit.maths.ties import upper_score
from fairbandit.metrics import Played
from fairbandit.parts import Argmax, Candidates, Outcomes, Problem
from fairbandit.policy import Policy
from fairbandit.streams import GRID, Purpose, Stream, Streams

ROUNDS, REPLICAS = 40, 3
"""How many rounds and replicas a check plays by default."""

LATE = (2, 7, ROUNDS - 3)
"""The rounds whose rewards come late, in checks of late rewards."""

ASKERS = 12
"""The number of replicas in checks of what a part returns, rather than of what it decides."""

CLOSE = 1e-9
"""The tolerance of results that must agree: two ways to add numbers up may round differently."""

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
        k, theta, rounds = self.places, self.truth.linear_theta(), torch.arange(count) + first
        drawn = self.streams[Purpose.POOLS].uniform(first, count, k * 5)
        contexts = 2 * drawn[..., : 4 * k].unflatten(-1, (k, 4)) - 1
        kind = drawn[..., 4 * k :]
        groups = (kind > 0.6).long() + (kind > 0.85).long()
        groups = torch.where((kind < 0.1) & (torch.arange(k) > 0), -1, groups)
        early = rounds[:, None] <= self.rare_after
        groups = torch.where(early, groups.clamp(max=1), groups)
        expected = contexts @ theta
        rewards = expected + self.streams[Purpose.REWARDS].normal(first, count, k)
        if self.upset_after is not None:
            rewards = torch.where(rounds[:, None] > self.upset_after, -3 * rewards, rewards)
        tops = upper_score(expected, contexts.abs() @ theta.abs())
        return Pools(contexts, groups, rewards, expected, self.truth.cdf(groups, tops))


class EvenStream(Stream):
    """A stream with one draw for all places of a round, so that candidates do not differ by it."""

    def uniform(self, first: int, count: int, width: int, shift: int = 0) -> Tensor:
        """One uniform draw a round, at each of its places: (B, count, width) float64."""
        return super().uniform(first, count, 1).repeat(1, 1, width)


def streams_of(kind: type[Stream], seed: int, replicas: Sequence[int]) -> Streams:
    """Streams of a subclass of `Stream`."""
    streams = Streams(seed, replicas)
    streams._streams = {p: kind(seed, streams.replicas, p, streams.device) for p in Purpose}
    return streams


class Listener(Argmax):
    """`Argmax` that records the index by which each round was decided last."""

    def __init__(self) -> None:
        self.heard: dict[int, Tensor] = {}

    def _weights(self, candidates: Candidates, index: Tensor) -> Tensor:
        shown = index.masked_fill(~candidates.present, 0)
        self.heard.update(enumerate(shown.unbind(1), candidates.first))
        return super()._weights(candidates, index)


def class_of(kind: str, spec: Spec) -> type[Any]:
    """The class of a part, which must be registered."""
    return registry.lookup(kind, str(spec["name"]) if isinstance(spec, Mapping) else spec)


def policy_with(kind: str, spec: Spec, split: str = "halves", part: Any = None) -> Policy:
    """A policy of a part and those that it is `checked_with`, the split and `REFERENCES`."""
    company = {**REFERENCES, "split": split, **class_of(kind, spec).checked_with, kind: spec}
    others = [other for other in registry.PART_KINDS if other != kind or part is None]
    parts = {other: registry.create(other, company[other]) for other in others}
    return Policy(**{kind: part, **parts})


def engine_with(
    kind: str,
    spec: Spec,
    *,
    part: Any = None,
    split: str = "halves",
    rounds: int = ROUNDS,
    replicas: Sequence[int] = tuple(range(REPLICAS)),
    at_once: int = GRID,
    upset_after: int | None = None,
    rare_after: int = 0,
) -> Engine:
    """An engine, not yet started, whose policy has the part and whose environment is `Scattered`.

    Its selector records what the rank returned (`Listener`), unless the part is a selector. The
    part is made of the spec if it is not given.
    """
    policy = policy_with(kind, spec, split, part)
    if kind != "selector":
        policy.selector = Listener()
    world = Scattered(upset_after, rare_after)
    return Engine(policy, world, rounds=rounds, seed=1, replicas=replicas, at_once=at_once)


def play(kind: str, spec: Spec, **options: Any) -> Tensor:
    """The decisions of a whole run, as `heard` gives them; the options are `engine_with`'s."""
    engine = engine_with(kind, spec, **options)
    return heard(engine, engine.play())


def heard(engine: Engine, pieces: Iterable[Played]) -> Tensor:
    """The decisions of an engine in the given pieces, (B, T, K + 1) float64.

    The index, zero at empty places, and last the place picked; for a selector only the latter.
    """
    found = torch.cat([played.actions for played in pieces], 1)[..., None].double()
    selector = engine.policy.selector
    if isinstance(selector, Listener):
        index = torch.stack([selector.heard[t] for t in sorted(selector.heard)], 1)
        found = torch.cat([index, found], 2)
        selector.heard = {}
    return found


def bind(engine: Engine, problem: Problem) -> None:
    """Binds an engine that has played no round yet to a problem of another number of groups."""
    engine.policy.bind(problem)
    engine.history = engine.policy.history()


def grow(engine: Engine, problem: Problem) -> None:
    """Has an engine continue with a problem of more groups."""
    engine.policy.grow(problem)
    engine.history.grow(problem)


def check_state(state: Mapping[str, Any]) -> None:
    """Refuses a state that holds anything but tensors and numbers."""
    for key, value in state.items():
        if not isinstance(value, (Tensor, int, float)):
            raise ConformanceError(
                f"its state has a {type(value).__name__} under {key!r}; "
                "expected tensors and numbers only"
            )


def check_same(one: Tensor, other: Tensor, what: str) -> None:
    """Refuses two results that differ: values (B, T), or decisions as `heard` gives them."""
    apart = ~one.isclose(other, rtol=CLOSE, atol=CLOSE)
    if bool(apart.any()):
        t, replica, *place = apart.transpose(0, 1).nonzero()[0].tolist()
        picks = one.dim() == 3 and place[0] == one.shape[2] - 1
        of = "picks" if picks else f"indices of place {place[0]}" if place else "values"
        at = (replica, t, *place)
        raise ConformanceError(
            f"{what} give different {of}, first at round {t + 1}: replica {replica} of the batch "
            f"has {one[at]:.9g} and {other[at]:.9g}"
        )


def scores_with(engine: Engine, late: Collection[int]) -> Tensor:
    """Scores, (B, 1, K), of the last round's candidates after the first pick of every round.

    The engine has not begun. The rewards of the `late` rounds come only at the end.
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
        after: how many rounds are played before.

    Returns:
        The candidates, of as many rounds as can be decided at once, and the policy.
    """
    engine = engine_with(kind, spec, rounds=after, replicas=range(ASKERS))
    policy = engine.policy
    policy.bind(replace(policy.problem, streams=streams_of(EvenStream, 1, range(ASKERS))))
    for _ in engine.play():
        pass
    last = block_end(policy, after + ROUNDS, after)
    pools = engine.environment.pools(after + 1, last - after)
    engine.history.add_pools(pools.contexts, pools.groups)
    with policy.mode():
        candidates, _ = policy.candidates(after + 1, pools.contexts, pools.groups, engine.history)
    return candidates, policy

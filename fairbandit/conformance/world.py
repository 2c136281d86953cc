"""The small problem that the checks play, and how they play it with the part under test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from fairbandit.maths.ties import upper_score
from fairbandit.metrics import Played
from fairbandit.parts import Argmax, Candidates, EpsilonGreedy
from fairbandit.policy import Policy
from fairbandit.streams import GRID, Purpose, Stream

ROUNDS, REPLICAS = 40, 3
"""How many rounds and replicas a check plays by default."""

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
        self.upset_after, self.rare_after = upset_after, rare_after
        self.features, self.places, self.group_names = 4, 6, ("often", "seldom", "rare")
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


class Listener(Argmax):
    """`Argmax` that records the index by which each round was decided last."""

    def __init__(self) -> None:
        self.last_index: dict[int, Tensor] = {}

    def _weights(self, candidates: Candidates, index: Tensor) -> Tensor:
        shown = index.masked_fill(~candidates.present, 0)
        self.last_index.update(enumerate(shown.unbind(1), candidates.first))
        return super()._weights(candidates, index)


def class_of(kind: str, spec: Spec) -> type[Any]:
    """The class of a part, which must be registered."""
    return registry.lookup(kind, str(spec["name"]) if isinstance(spec, Mapping) else spec)


def engine_with(
    kind: str,
    spec: Spec,
    *,
    part: Any = None,
    split: str = "halves",
    replicas: Sequence[int] = tuple(range(REPLICAS)),
    groups: int | None = None,
    **world: Any,
) -> Engine:
    """An engine, not yet started, with a part that plays `Scattered` beside reference parts.

    Its selector records what the rank returns (`Listener`), unless the part is a selector, or a
    metric, which judges random picks under the name `checked`.

    Args:
        kind: the kind of the part under test.
        spec: the part.
        part: the part as an object; made of the spec if it is not given.
        split: the split beside which it plays, unless the part is `checked_with` another one.
        replicas: the replicas' numbers.
        groups: how many groups the policy knows; it can `grow`. None is all of them.
        world: options of `Scattered`.
    """
    made = registry.create(kind, spec) if part is None else part
    beside = {**REFERENCES, "split": split, **getattr(class_of(kind, spec), "checked_with", {})}
    company = {other: registry.create(other, beside[other]) for other in registry.PART_KINDS}
    company["selector"] = EpsilonGreedy(epsilon=0.6) if kind == "metric" else Listener()
    if kind in registry.PART_KINDS:
        company[kind] = made
    environment = made if kind == "environment" else Scattered(**world)
    metrics = {"checked": made} if kind == "metric" else {}
    judged: dict[str, Any] = {"metrics": metrics, "rounds": 0, "seed": 1, "replicas": replicas}
    engine = Engine(Policy(**company), environment, **judged)
    if groups is not None:
        engine.policy.bind(replace(engine.policy.problem, groups=groups))
        engine.history = engine.policy.history()
    return engine


def play(kind: str, spec: Spec, rounds: int = ROUNDS, piece: int = GRID, **options: Any) -> Tensor:
    """What a part gives in a whole run, as `run` does; the options are those of `engine_with`."""
    return run(engine_with(kind, spec, **options), rounds, piece)


def run(engine: Engine, rounds: int, piece: int = GRID) -> Tensor:
    """Plays on in pieces, up to a round, and returns what the part under test gives.

    Returns:
        (B, N, M): the index, zero at empty places, and last the place picked; for a selector only
        the latter. For an environment all of its pools, for a metric its values.
    """
    found = []
    while engine.history.played < rounds:
        engine.rounds = min(rounds, engine.history.played + piece)
        found += [_given(engine, played) for played in engine.play()]
    return torch.cat(found, 1)


def _given(engine: Engine, played: Played) -> Tensor:
    count, selector = played.actions.shape[1], engine.policy.selector
    if not isinstance(engine.environment, Scattered):
        pools = engine.environment.pools(played.first, count)
        return torch.cat([part.flatten(2).double() for part in vars(pools).values()], 2)
    if "checked" in played.metrics:
        return played.metrics["checked"][..., None]
    picks = played.actions[..., None].double()
    if not isinstance(selector, Listener):
        return picks
    index = [selector.last_index[t] for t in range(played.first, played.last + 1)]
    return torch.cat([torch.stack(index, 1), picks], 2)


def grow(engine: Engine) -> None:
    """Has an engine continue with all groups of its environment."""
    problem = replace(engine.policy.problem, groups=len(engine.environment.group_names))
    engine.policy.grow(problem)
    engine.history.grow(problem)


def check_same(one: Tensor, other: Tensor, what: str) -> None:
    """Refuses two results of `run` that differ."""
    apart = ~one.isclose(other, rtol=CLOSE, atol=CLOSE, equal_nan=True)
    if bool(apart.any()):
        t, b, k = apart.transpose(0, 1).nonzero()[0].tolist()
        raise ConformanceError(
            f"{what} give different results, first at round {t + 1}: replica {b} of the batch has "
            f"{one[b, t, k]:.9g} and {other[b, t, k]:.9g} (number {k + 1} of {one.shape[2]})"
        )


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
    engine = engine_with(kind, spec, replicas=range(ASKERS))
    policy, history = engine.policy, engine.history
    run(engine, after)
    last = block_end(policy, after + ROUNDS, after)
    pools = engine.environment.pools(after + 1, last - after)
    history.add_pools(pools.contexts, pools.groups)
    with policy.mode():
        candidates, _ = policy.candidates(after + 1, pools.contexts, pools.groups, history)
    candidates.stream = EvenStream(1, range(ASKERS), Purpose.RANK, policy.problem.device)
    return candidates, policy

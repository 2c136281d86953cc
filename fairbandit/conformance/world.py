"""The small problem that the checks play, and how they play it with the part under test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbandit import registry
from fairbandit.engine import Engine
from fairbandit.environments.base import Environment, Pools, Truth
from fairbandit.errors import FairbanditError
from fairbandit.maths.grouped_cdf import GroupedCdf
from fairbandit.models import NoBounds
from fairbandit.past import Knowledge
from fairbandit.policy import Policy
from fairbandit.scored import Ranked
from fairbandit.selectors import Selection
from fairbandit.streams import CHUNK_ROUNDS, Purpose

ROUNDS, REPLICAS, SEED = 40, 3, 1
"""How many rounds and replicas a check plays by default, and the seed."""

ASKERS = 12
"""The number of replicas in checks of what a part returns, rather than of what it decides."""

CLOSE = 1e-9
"""The tolerance of results that must agree: two ways to add numbers up may round differently."""

REFRESH = 1.5
"""The `refresh` of policies whose estimator needs one."""

REFERENCES: dict[str, Any] = {
    "split": "halves",
    "estimator": "ridge",
    "rank": "empirical_cdf",
    "selector": "argmax",
}
"""The parts that complete the policy of the part under test."""

BOUNDED = {"split": "full", "estimator": "optimistic_ridge", "rank": "identity"}
"""Those that do so if the part reads confidence bounds, which the reference parts have not."""

Spec = str | Mapping[str, Any]
"""A part: its registered name, or a mapping with `name` and hyperparameters."""

SPLITS = ("halves", "full")
"""The splits beside which a part plays; `full` leaves no round that needs no guess."""

_SHIFTS = (0.0, 0.5, -0.5)  # what a group adds to the last feature


class ConformanceError(FairbanditError):
    """A part does not keep the contract; the message names the fault."""


class Scattered(Environment):
    """A small problem with the awkward cases: random groups, a rare group and empty places.

    Args:
        upset_after: the rewards of later rounds are changed; None changes none.
        rare_after: the rare group appears after this round.
    """

    def __init__(self, upset_after: int | None = None, rare_after: int = 0) -> None:
        self.upset_after, self.rare_after = upset_after, rare_after
        self.features, self.places, self.group_names = 4, 6, ("often", "seldom", "rare")
        draws = np.random.default_rng(0)
        theta = torch.from_numpy(draws.normal(size=4))
        sample = torch.from_numpy(draws.uniform(-1, 1, (5000, 4))) @ theta
        self.truth = Truth(theta, GroupedCdf([sample + shift * theta[-1] for shift in _SHIFTS]))

    def _pools(self, first: int, count: int) -> Pools:
        assert self.truth is not None
        k, theta = self.places, self.truth.linear_theta()
        rounds = torch.arange(first, first + count)[:, None]
        drawn = self.streams[Purpose.POOLS].uniform(first, count, k * 5)
        kind = drawn[..., 4 * k :]
        groups = (kind > 0.6).long() + (kind > 0.85).long()
        groups = torch.where((kind < 0.1) & (torch.arange(k) > 0), -1, groups)
        groups = torch.where(rounds <= self.rare_after, groups.clamp(max=1), groups)
        contexts = 2 * drawn[..., : 4 * k].unflatten(-1, (k, 4)) - 1
        contexts[..., -1] += torch.tensor(_SHIFTS, dtype=torch.float64)[groups.clamp(min=0)]
        expected = contexts @ theta
        rewards = expected + self.streams[Purpose.REWARDS].normal(first, count, k)
        if self.upset_after is not None:
            rewards = torch.where(rounds > self.upset_after, -3 * rewards, rewards)
        return Pools(contexts, groups, rewards, expected, self.truth.cdf(groups, expected, rounds))


class Recorded(Policy):
    """A policy that records what it decides from.

    Attributes:
        asked: the candidates that it decided last.
        known: the knowledge with which it did so.
        shown: scores, indices and probabilities by round, (B, 3K), 0 at empty places.
    """

    asked: Ranked
    known: Knowledge

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self.shown: dict[int, Tensor] = {}

    def propose(
        self,
        known: Knowledge,
        first: int,
        pools: tuple[Tensor, Tensor],
        picks: int = 1,
        frozen: bool = False,
    ) -> Selection:
        """Decides N consecutive rounds; see `Policy.propose`."""
        self.asked, self.known = ranked, _ = self.ranked(known, first, pools, frozen), known
        index, present = ranked.index, ranked.present
        negative = (index.high < index.value) & present
        refuse(negative, "the rank gave a negative slack", index=index.value, high=index.high)
        selection = self.selector.select(ranked, picks)
        parts = ranked.scored.scores.value, index.value, selection.inclusion
        shown = torch.cat([part.where(present, 0) for part in parts], 2)
        self.shown.update(enumerate(shown.unbind(1), first))  # the last repetition counts
        return selection


def engine_of(
    kind: str,
    part: Any,
    *,
    split: str = "halves",
    replicas: Sequence[int] = range(REPLICAS),
    picks: int = 1,
    **world: Any,
) -> Engine:
    """An engine, not yet started, with a part that plays `Scattered` beside reference parts.

    The part is given by itself or by its spec. The split beside it is the named one, unless the
    part reads confidence bounds, and a metric judges random picks.
    """
    made = registry.create(kind, part) if isinstance(part, (str, Mapping)) else part
    beside = {**REFERENCES, "split": split}
    if kind == "metric":
        beside["selector"] = {"name": "epsilon_greedy", "epsilon": 0.6}
    policy = _policy_of(kind, made, beside)
    try:
        next(Engine(policy, Scattered(), rounds=1, seed=SEED, replicas=[0]).play())
    except NoBounds:  # the part reads them
        policy = _policy_of(kind, made, beside | BOUNDED)
    environment = made if kind == "environment" else Scattered(**world)
    metrics = {"checked": made} if kind == "metric" else {}
    options: dict[str, Any] = {"rounds": 0, "seed": SEED, "replicas": replicas, "picks": picks}
    return Engine(policy, environment, metrics=metrics, **options)


def _policy_of(kind: str, made: Any, beside: Mapping[str, Any]) -> Recorded:
    """The policy of some parts, one of which is made if what is checked is a part of a policy."""
    company = {
        one: made if one == kind else registry.create(one, beside[one])
        for one in registry.PART_KINDS
    }
    refresh = REFRESH if "refresh" in company["estimator"].needs else None
    return Recorded(**company, refresh=refresh)


def play(engine: Engine, rounds: int = ROUNDS, piece: int = CHUNK_ROUNDS) -> Tensor:
    """Plays on in pieces, up to a round, and returns what the part under test gives.

    Returns:
        (B, N, M): what `Recorded` shows, the place picked, the metrics and, if the environment is
        the part, its pools.
    """
    policy, environment, found = engine.policy, engine.environment, []
    assert isinstance(policy, Recorded)
    while engine.played < rounds:
        engine.rounds = min(rounds, engine.played + piece)
        for played in engine.play():
            shown = [policy.shown[t] for t in range(played.first, played.last + 1)]
            values = [torch.stack(shown, 1), played.actions, *played.metrics.values()]
            if not isinstance(environment, Scattered):
                values += vars(environment.pools(played.first, len(shown))).values()
            found.append(torch.cat([value.unsqueeze(2).flatten(2).double() for value in values], 2))
    return torch.cat(found, 1)


def asked(kind: str, spec: Spec) -> tuple[Ranked, Recorded]:
    """Candidates as a rank is asked about them after `ROUNDS` of play, for `ASKERS` replicas.

    Random draws of the rank are ½, so that candidates differ by no draw.

    Args:
        kind: the kind of the part under test.
        spec: the part.

    Returns:
        The candidates, and the policy.
    """
    engine = engine_of(kind, spec, replicas=range(ASKERS))
    half = torch.tensor(0.5, dtype=torch.float64)
    vars(engine.streams[Purpose.RANK])["runs"] = lambda _, counts: half.expand(sum(counts))
    for rounds in (ROUNDS, 2 * ROUNDS):
        play(engine, rounds)
    policy = engine.policy
    assert isinstance(policy, Recorded)
    return policy.asked, policy


def differ(one: Tensor, other: Tensor) -> Tensor:
    """Where two ways to compute the same thing differ by more than rounding."""
    return ~one.isclose(other, rtol=CLOSE, atol=CLOSE, equal_nan=True)


def refuse(wrong: Tensor, what: str, **values: Tensor) -> None:
    """Raises an error that names the first place where something is wrong, and the values there.

    Raises:
        ConformanceError: something is wrong anywhere.
    """
    if bool(wrong.any()):
        at = wrong.nonzero()[0].tolist()
        there = {name: value.expand_as(wrong)[tuple(at)] for name, value in values.items()}
        found = ", ".join(f"{name} {value:.9g}" for name, value in there.items())
        raise ConformanceError(f"{what} at {at}: {found}")

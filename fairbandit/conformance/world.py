"""The small problem of the checks, and functions that play it with the part under test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbandit import registry
from fairbandit.environments.base import Environment, Pools, Truth
from fairbandit.errors import FairbanditError
from fairbandit.estimators import LinearModel, Models
from fairbandit.estimators.models import NoBounds
from fairbandit.history import Block, History
from fairbandit.history.problem import Problem
from fairbandit.policy.build import build_policy
from fairbandit.policy.engine import Engine
from fairbandit.policy.policy import Policy
from fairbandit.ranks import Rank
from fairbandit.ranks.scored import Scored
from fairbandit.selectors import Selection
from fairbandit.selectors.ranked import Ranked
from fairbandit.splits import Full, Schedule
from fairbandit.streams import CHUNK_ROUNDS, Purpose, Streams
from fairbandit.tables.grouped_cdf import GroupedCdf

ROUNDS, REPLICAS, SEED = 40, 3, 1
"""The default numbers of rounds and replicas of a check, and the seed."""

ASKERS = 12
"""The number of replicas in checks of the values that a part returns, rather than of decisions."""

CLOSE = 1e-9
"""The tolerance of results that must agree: sums in different orders round differently."""

REFRESH = 1.5
"""The `refresh` of policies whose estimator needs one."""

REFERENCES: dict[str, Any] = {
    "split": "halves",
    "estimator": "ridge",
    "rank": "empirical_cdf",
    "selector": "argmax",
    "environment": "simulation",
    "metric": "parity_gap",
    "policy": "fair_greedy",
}
"""The parts that complete the policy of the part under test. Where a part fails a check, the
reference of its kind is tried, too."""

BOUNDED = {"split": "full", "estimator": "optimistic_ridge", "rank": "identity"}
"""The parts that replace `REFERENCES` if the part under test reads confidence bounds."""

Spec = str | Mapping[str, Any]
"""A part: its registered name, or a mapping with `name` and hyperparameters."""

SETTINGS = (("full", 1), ("halves", 3), ("full", 2))
"""The splits beside which a part plays, and the numbers of picks; a policy keeps its split. Under
`full` each round depends on the round before. Slow checks play the first two."""

AXES = ("replica", "round", "place", "number")
"""The names of dimensions in messages."""

PAST = 20
"""The number of rounds of `same_past`."""

_SHIFTS = (0.0, 0.5, -0.5)  # shifts of the last feature by group


class ConformanceError(FairbanditError):
    """A part violates the contract; the message names the fault."""


class Scattered(Environment):
    """A small problem with the awkward cases: random groups, a rare group and empty places.

    Args:
        upset_after: the rewards after this round are changed; None for no change.
        rare_after: the rare group appears after this round.
        small_every: the pools of every so many rounds have at most two candidates.
    """

    def __init__(
        self, upset_after: int | None = None, rare_after: int = 0, small_every: int = 4
    ) -> None:
        self.upset_after, self.rare_after, self.small_every = upset_after, rare_after, small_every
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
        empty = (kind < 0.1) | ((rounds % self.small_every == 0) & (torch.arange(k) > 1))
        groups = torch.where(empty & (torch.arange(k) > 0), -1, groups)
        groups = torch.where(rounds <= self.rare_after, groups.clamp(max=1), groups)
        contexts = 2 * drawn[..., : 4 * k].unflatten(-1, (k, 4)) - 1
        contexts[..., -1] += torch.tensor(_SHIFTS, dtype=torch.float64)[groups.clamp(min=0)]
        expected = contexts @ theta
        rewards = expected + self.streams[Purpose.REWARDS].normal(first, count, k)
        if self.upset_after is not None:
            rewards = torch.where(rounds > self.upset_after, -3 * rewards, rewards)
        return Pools(contexts, groups, rewards, expected, self.truth.cdf(groups, expected, rounds))


class Recorded(Policy):
    """A policy that records the inputs of its decisions.

    Attributes:
        asked: the ranked candidates of the last decision.
        known: the knowledge of the last decision.
        shown: scores, indices and probabilities by round, (B, K) each, 0 at empty places.
    """

    asked: Ranked
    known: History

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self.shown: dict[int, tuple[Tensor, ...]] = {}

    def ranked(self, history: History) -> Ranked:
        """Records the ranked candidates; see `Policy.ranked`."""
        self.known, self.asked = history, super().ranked(history)
        return self.asked

    def propose(self, history: History, picks: int = 1) -> Selection:
        """Records the values of the decision; see `Policy.propose`."""
        selection = super().propose(history, picks)
        scored = self.asked.scored
        parts = scored.scores.value, self.asked.index.value, selection.inclusion
        shown = (part.where(scored.present, 0).unbind(1) for part in parts)
        # the last repetition counts
        self.shown.update(enumerate(zip(*shown, strict=True), scored.first))
        return selection


def made(kind: str, spec: Any) -> Any:
    """The part of a spec, or the policy; anything else is the part itself."""
    if not isinstance(spec, (str, Mapping)):
        return spec
    return build_policy(spec) if kind == "policy" else registry.create(kind, spec)


def engine_of(
    kind: str,
    part: Any,
    *,
    split: str = "halves",
    replicas: Sequence[int] = range(REPLICAS),
    picks: int = 1,
    **world: Any,
) -> Engine:
    """An engine, not yet started, that plays `Scattered` with a part beside reference parts.

    `part` is the part itself or its spec. A part that reads confidence bounds is played beside
    `BOUNDED` instead of the given split. A metric judges random picks.
    """
    tested = made(kind, part)
    beside = {**REFERENCES, "split": split}
    if kind == "metric":
        beside["selector"] = {"name": "epsilon_greedy", "epsilon": 0.6}
    policy = _policy_of(kind, tested, beside)
    try:
        next(Engine(policy, Scattered(), rounds=1, seed=SEED, replicas=[0]).play())
    except NoBounds:  # the part reads bounds
        policy = _policy_of(kind, tested, beside | BOUNDED)
    environment = tested if kind == "environment" else Scattered(**world)
    metrics = {"metric": tested} if kind == "metric" else {}
    options: dict[str, Any] = {"rounds": 0, "seed": SEED, "replicas": replicas, "picks": picks}
    return Engine(policy, environment, metrics=metrics, **options)


def _policy_of(kind: str, tested: Any, beside: Mapping[str, Any]) -> Recorded:
    """The policy under test, or one with the part under test and, for the other kinds, `beside`."""
    if kind == "policy":
        return Recorded(**tested.parts, refresh=tested.refresh, name=tested.name)
    parts = {
        name: tested if name == kind else registry.create(name, beside[name])
        for name in registry.PART_KINDS
    }
    refresh = REFRESH if "refresh" in parts["estimator"].needs else None
    return Recorded(**parts, refresh=refresh)


Played = dict[str, Tensor]
"""Results of a play by the quantity's name, (B, N, ...) each."""


def play(engine: Engine, rounds: int = ROUNDS, piece: int = CHUNK_ROUNDS) -> Played:
    """Plays up to a round, in pieces, and returns the results of the part under test.

    Returns:
        The values that `Recorded` shows, the places picked, the metrics and, if the part is an
        environment, its pools.
    """
    environment, found = engine.environment, dict[str, list[Tensor]]()
    while engine.played < rounds:
        engine.rounds = min(rounds, engine.played + piece)
        for played in engine.play():
            values = results(engine.policy, played.first, played.last)
            values |= {"pick": played.actions, **played.metrics}
            if not isinstance(environment, Scattered):
                pools = environment.pools(played.first, played.last + 1 - played.first)
                values = vars(pools) | values
            for name, value in values.items():
                found.setdefault(name, []).append(value.double())
    return {name: torch.cat(values, 1) for name, values in found.items()}


def results(policy: Policy, first: int, last: int) -> Played:
    """Scores, indices and probabilities of some rounds of a `Recorded` policy."""
    assert isinstance(policy, Recorded)
    rounds = zip(*(policy.shown[t] for t in range(first, last + 1)), strict=True)
    values = [torch.stack(value, 1) for value in rounds]
    return dict(zip(("score", "index", "probability"), values, strict=True))


def asked(kind: str, spec: Spec) -> tuple[Ranked, Recorded]:
    """The ranked candidates of `ROUNDS` rounds, after `ROUNDS` of play, for `ASKERS` replicas.

    All random draws of the rank are ½, so that draws do not distinguish candidates. The policy is
    returned, too.
    """
    engine = engine_of(kind, spec, replicas=range(ASKERS))
    without_draws(engine.streams)
    for rounds in (ROUNDS, 2 * ROUNDS):
        play(engine, rounds)
    policy = engine.policy
    assert isinstance(policy, Recorded)
    return policy.asked, policy


def without_draws(streams: Streams) -> None:
    """Makes all random draws of ranks ½."""
    half = torch.tensor(0.5, dtype=torch.float64)
    vars(streams[Purpose.RANK])["runs"] = lambda _, counts: half.expand(sum(counts))


def same_past(rank: Rank, members: int) -> Scored:
    """Candidates of two groups that have had the same contexts, in another order in each round.

    The first two candidates are equal and 0, the last two are equal and random. `members` is the
    number of contexts of each group in each of `PAST` rounds.
    """
    draws = torch.Generator().manual_seed(SEED)
    size, d, rounds = (ASKERS, PAST, members), 4, PAST
    x = torch.randn(*size, d, generator=draws, dtype=torch.float64)
    groups = torch.arange(2).repeat_interleave(members).expand(ASKERS, rounds, -1)
    y = torch.randn(ASKERS, 1, 1, d, generator=draws, dtype=torch.float64)
    candidates = torch.cat([0 * y, 0 * y, y, y], 2)
    streams = Streams(SEED, range(ASKERS))
    without_draws(streams)
    truth = Truth(torch.ones(d).double(), lambda groups, values, rounds: torch.sigmoid(values))
    problem = Problem(d, 2, streams, truth=truth)
    history = History.empty(problem, max_contexts=rank.max_contexts)
    history = history.with_pools(torch.cat([x, x.flip(2)], 2), groups)
    theta = torch.randn(ASKERS, 1, d, generator=draws, dtype=torch.float64)
    models = Models(LinearModel(theta), torch.zeros(1, dtype=torch.int64))
    block = Block(rounds + 1, candidates, torch.tensor([0, 1, 0, 1]).expand(ASKERS, 1, -1))
    plan = Schedule(Full()).plan(rounds + 1, 1)
    return Scored(history._replace(open=block), plan, models)


def differ(first: Tensor, second: Tensor) -> Tensor:
    """Where two computations of the same values differ by more than rounding."""
    return ~first.isclose(second, rtol=CLOSE, atol=CLOSE, equal_nan=True)


def same(label: str, first: Played, second: Played, **given: Any) -> None:
    """Raises an error with the first quantity, and its place, in which two plays differ."""
    wrong = {name: differ(values, second[name]) for name, values in first.items()}
    name = min(wrong, key=lambda name: _first(wrong[name])[:1])
    values = {"first": first[name], "second": second[name]}
    refuse(wrong[name], f"{label} give different results: {name} differs", values, **given)


def refuse(
    wrong: Tensor,
    fault: str,
    values: Mapping[str, Tensor],
    *,
    axes: Sequence[str] = AXES,
    start: int = 1,
    replicas: Sequence[int] = range(ASKERS),
) -> None:
    """Raises an error with the first position at which `wrong` is true, and the values there.

    `axes` names the dimensions; `start` is the first round, and `replicas` are the replicas.
    """
    if bool(wrong.any()):
        _, at = _first(wrong)
        listed = [f"{name} {v.expand_as(wrong)[tuple(at)]:.9g}" for name, v in values.items()]
        named = dict(zip(axes, at, strict=False))
        if "replica" in named:
            named["replica"] = replicas[named["replica"]]
        if "round" in named:
            named["round"] += start
        place = [f"{axis} {n}" for axis, n in named.items()]
        raise ConformanceError(f"{fault} at {', '.join(place)}: {', '.join(listed)}")


def _first(wrong: Tensor) -> tuple[float, list[int]]:
    """The earliest round, the second dimension, where `wrong` is true, or ∞, and the position."""
    positions = wrong.nonzero().tolist()
    return min(((at[:2][-1], at) for at in positions), default=(torch.inf, []))

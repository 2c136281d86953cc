"""The small problem of the checks, a play of it with the part under test, and its comparison."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairbandit import registry
from fairbandit.environments.base import Environment, Pools, Truth
from fairbandit.errors import FairbanditError
from fairbandit.estimators import NoBounds
from fairbandit.history import History
from fairbandit.policy.build import build_policy
from fairbandit.policy.engine import Engine
from fairbandit.policy.policy import Policy
from fairbandit.selectors import Ranked, Selection
from fairbandit.streams import CHUNK_ROUNDS, Purpose
from fairbandit.tables.population import GroupedCdf

ROUNDS, REPLICAS, ASKERS, PLACES, SEED = 40, 3, 12, 6, 1
"""The default sizes of a play, and its seed; checks of values, rather than of decisions, have
`ASKERS` replicas."""

CLOSE = 1e-9  # the tolerance of results that must agree: sums in different orders round differently
REFRESH = 1.5  # the `refresh` of policies whose estimator needs one

REFERENCES: dict[str, Any] = {
    "split": "halves",
    "estimator": "ridge",
    "rank": "empirical_cdf",
    "selector": "argmax",
}
"""The parts that complete the policy of the part under test."""

BOUNDED = {"split": "full", "estimator": "optimistic_ridge", "rank": "identity"}
"""The parts that replace `REFERENCES` if the part under test reads confidence bounds."""

SETTINGS = (("full", 1), ("halves", 3), ("full", 2))
"""The splits beside which a part plays, and the numbers of picks; a policy keeps its split. Under
`full` each round depends on the round before. Slow checks play the first two."""

AXES = ("replica", "round", "place", "number")  # the names of dimensions in messages

Spec = str | Mapping[str, Any]
"""A part: its registered name, or a mapping with `name` and hyperparameters."""

Results = dict[str, Tensor]  # the quantities in which plays are compared, by name, (B, N, ...) each


class ConformanceError(FairbanditError):
    """A part violates the contract; the message names the fault."""


class Scattered(Environment):
    """A small problem with the awkward cases: random groups, a rare group and empty places.

    Args:
        upset_after: the rewards after this round are changed; None for no change.
        rare_after: the rare group appears after this round.
        small_every: in rounds whose number is a multiple of this, pools have at most two
            candidates.
        twins: each pool has three candidates of group 0, the last of them at the origin, and in
            reverse order three equal candidates of group 1. True rewards have one distribution.
        known: whether the ground truth is known.
    """

    def __init__(
        self,
        upset_after: int | None = None,
        rare_after: int = 0,
        small_every: int = 4,
        twins: bool = False,
        known: bool = True,
    ) -> None:
        self.upset_after, self.rare_after, self.small_every = upset_after, rare_after, small_every
        self.twins, self.shifts = twins, (0.0, 0.0, 0.0) if twins else (0.0, 0.5, -0.5)
        self.features, self.places, self.group_names = 4, PLACES, ("often", "seldom", "rare")
        draws = np.random.default_rng(0)
        theta = torch.from_numpy(draws.normal(size=4))
        sample = torch.from_numpy(draws.uniform(-1, 1, (5000, 4))) @ theta
        cdf = GroupedCdf([sample + shift * theta[-1] for shift in self.shifts])
        self._truth = Truth(theta, cdf)
        self.truth = self._truth if known else None

    def _pools(self, first: int, count: int) -> Pools:
        k, theta = self.places, self._truth.linear_theta()
        rounds = torch.arange(first, first + count)[:, None]
        drawn = self.streams[Purpose.POOLS].uniform(first, count, k * 5)
        kind = drawn[..., 4 * k :]
        groups = (kind > 0.6).long() + (kind > 0.85).long()
        empty = (kind < 0.1) | ((rounds % self.small_every == 0) & (torch.arange(k) > 1))
        groups = torch.where(empty & (torch.arange(k) > 0), -1, groups)
        groups = torch.where(rounds <= self.rare_after, groups.clamp(max=1), groups)
        contexts = 2 * drawn[..., : 4 * k].unflatten(-1, (k, 4)) - 1
        contexts[..., -1] += torch.tensor(self.shifts, dtype=torch.float64)[groups.clamp(min=0)]
        if self.twins:
            half = contexts[:, :, :3].abs() * theta.sign()  # means of scores are far from 0
            half[:, :, 2] = 0
            contexts = torch.cat([half, half.flip(2)], 2)
            groups = (torch.arange(k) > 2).long().expand_as(groups)
        expected = contexts @ theta
        rewards = expected + self.streams[Purpose.REWARDS].normal(first, count, k)
        if self.upset_after is not None:
            rewards = torch.where(rounds > self.upset_after, -3 * rewards, rewards)
        return Pools(contexts, groups, rewards, expected, self._truth.cdf(groups, expected, rounds))


class Recorded(Policy):
    """A policy that records its decisions.

    Attributes:
        history, asked: the history and the ranked candidates of the last decision.
        shown: scores, indices and probabilities by round, (B, K) each, 0 at empty places.
    """

    history: History
    asked: Ranked

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self.shown: dict[int, tuple[Tensor, ...]] = {}

    def propose(self, history: History, picks: int = 1) -> Selection:
        """Records the decision; see `Policy.propose`."""
        self.history, self.asked = history, self.ranked(history)
        selection = self.selector.select(self.asked, picks)
        parts = self.asked.scored.scores.value, self.asked.index.value, selection.inclusion
        rounds = (part.where(self.asked.present, 0).unbind(1) for part in parts)
        # the last repetition counts
        self.shown.update(enumerate(zip(*rounds, strict=True), history.block.first))
        return selection

    def results(self, first: int, last: int) -> Results:
        """Scores, indices and probabilities of rounds `first` … `last`."""
        rounds = zip(*(self.shown[t] for t in range(first, last + 1)), strict=True)
        parts = (torch.stack(part, 1) for part in rounds)
        return dict(zip(("score", "index", "probability"), parts, strict=True))


class Play(NamedTuple):
    """A finished play: its results, its policy and its engine."""

    results: Results
    policy: Recorded
    engine: Engine


def made(kind: str, spec: Any) -> Any:
    """The part of a spec, or the policy; anything else is the part itself."""
    if not isinstance(spec, (str, Mapping)):
        return spec
    return build_policy(spec) if kind == "policy" else registry.create(kind, spec)


def play(
    kind: str,
    part: Any,
    setting: tuple[str, int] = ("halves", 1),
    *,
    rounds: int = ROUNDS,
    piece: int = CHUNK_ROUNDS,
    replicas: Sequence[int] = range(REPLICAS),
    delay: int = 0,
    estimator: str = "ridge",
    draws: bool = True,
    **world: Any,
) -> Play:
    """Plays a part, or its spec, beside reference parts in `Scattered(**world)`.

    An environment plays in the place of `Scattered`; a metric judges random picks. At most `piece`
    rounds are decided together. `draws=False` sets all random draws of ranks to ½.
    """
    tested, beside = made(kind, part), REFERENCES | {"split": setting[0], "estimator": estimator}
    if kind == "metric":
        beside["selector"] = {"name": "epsilon_greedy", "epsilon": 0.6}
    environment = tested if kind == "environment" else Scattered(**world)
    policy = _policy_with(kind, tested, beside)
    options: dict[str, Any] = {"replicas": replicas, "picks": setting[1], "delay": delay}
    metrics = {kind: tested} if kind == "metric" else {}
    engine = Engine(policy, environment, rounds=0, seed=SEED, metrics=metrics, **options)
    if not draws:
        half = torch.tensor(0.5, dtype=torch.float64)
        vars(engine.streams[Purpose.RANK])["runs"] = lambda _, counts: half.expand(sum(counts))
    pieces = dict[str, list[Tensor]]()
    while engine.played < rounds:
        engine.rounds = min(rounds, engine.played + piece)
        for played in engine.play():
            results = policy.results(played.first, played.last) | {"pick": played.actions}
            results |= {name: played.metrics[name] for name in metrics}
            if kind == "environment":  # draws the pools again, and keeps the results
                results |= vars(tested.pools(played.first, played.last + 1 - played.first))
            for name, values in results.items():
                pieces.setdefault(name, []).append(values.double())
    return Play({name: torch.cat(parts, 1) for name, parts in pieces.items()}, policy, engine)


def asked(kind: str, spec: Spec, **options: Any) -> tuple[Ranked, Recorded]:
    """The ranked candidates of `ROUNDS` rounds after as many rounds of play, and the policy.

    All random draws of the rank are ½, so that they do not distinguish candidates.
    """
    options |= {"rounds": 2 * ROUNDS, "piece": ROUNDS, "replicas": range(ASKERS), "draws": False}
    policy = play(kind, spec, **options).policy
    return policy.asked, policy


def _policy_with(kind: str, tested: Any, beside: Mapping[str, Any]) -> Recorded:
    if kind == "policy":
        return Recorded(**tested.parts, refresh=tested.refresh, name=tested.name)
    parts = {name: registry.create(name, spec) for name, spec in beside.items() if name != kind}
    parts |= {kind: tested} if kind in beside else {}
    refresh = REFRESH if "refresh" in parts["estimator"].needs else None
    policy = Recorded(**parts, refresh=refresh)
    try:
        next(Engine(policy, Scattered(), rounds=1, seed=SEED, replicas=[0]).play())
    except NoBounds:
        if BOUNDED.items() <= beside.items():
            raise
        return _policy_with(kind, tested, {**beside, **BOUNDED})
    return policy


def differ(first: Tensor, second: Tensor) -> Tensor:
    """Where two computations of the same values differ by more than rounding."""
    return ~first.isclose(second, rtol=CLOSE, atol=CLOSE, equal_nan=True)


def same(label: str, first: Results, second: Results, start: int = 1) -> None:
    """Raises an error with the first round in which two plays, from round `start`, differ."""
    wrong = {name: differ(values, second[name]) for name, values in first.items()}
    name = min(wrong, key=lambda name: _first(wrong[name])[0])
    values = {"first": first[name], "second": second[name]}
    refuse(wrong[name], f"{label} give different results: {name} differs", AXES, start, **values)


def refuse(
    wrong: Tensor, fault: str, axes: Sequence[str] = AXES, start: int = 1, **values: Tensor
) -> None:
    """Raises an error with the first position at which `wrong` is true, and the values there.

    `axes` names the dimensions; `start` is the first round; `values` broadcast to `wrong`.
    """
    if bool(wrong.any()):
        at = _first(wrong)[1]
        numbers = zip(axes, at, strict=False)
        place = [f"{axis} {n + start if axis == 'round' else n}" for axis, n in numbers]
        listed = [f"{name} {v.expand_as(wrong)[tuple(at)]:.9g}" for name, v in values.items()]
        raise ConformanceError(f"{fault} at {', '.join(place)}: {', '.join(listed)}")


def _first(wrong: Tensor) -> tuple[float, list[int]]:
    """The earliest round, the second dimension, where `wrong` is true, or ∞, and the position."""
    positions = wrong.nonzero().tolist()
    return min(((at[:2][-1], at) for at in positions), default=(torch.inf, []))


GLOBALS: Mapping[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "torch's default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "torch's number of threads": (torch.get_num_threads, torch.set_num_threads),
    "whether torch records gradients": (torch.is_grad_enabled, torch.set_grad_enabled),
    "NumPy's handling of floating-point errors": (np.geterr, lambda kept: np.seterr(**kept)),
    "torch's global generator": (torch.get_rng_state, torch.set_rng_state),
    "NumPy's global generator": (np.random.get_state, np.random.set_state),
    "Python's global generator": (random.getstate, random.setstate),
}


@contextmanager
def restored() -> Iterator[None]:
    """Restores, on exit, the settings and global generators that were changed inside."""
    before = {name: read() for name, (read, _) in GLOBALS.items()}
    try:
        yield
    finally:
        for name, (_, put) in GLOBALS.items():
            put(before[name])

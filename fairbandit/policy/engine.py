"""The engine: plays any policy in an environment, in blocks of rounds, with delayed rewards."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import torch

from fairbandit.environments.base import Environment, Pools
from fairbandit.errors import FairbanditError, shown
from fairbandit.history import Outcomes, Problem
from fairbandit.metrics import Judge, Metric, Played
from fairbandit.policy.fixed_point import BlockSize, fixed_point, outcomes_of
from fairbandit.policy.policy import Policy
from fairbandit.selectors import Selection
from fairbandit.streams import CHUNK_ROUNDS, Purpose, Streams
from fairbandit.tables.labels import is_unknown

CANDIDATES = 1 << 10
"""Chunks of pools with more candidates than this are decided in halves. Larger pieces share more
work, but their windows differ more, which costs masks."""


class Engine:
    """Plays one policy in one environment, for B replicas at once.

    Args:
        policy, environment: who decides, and who draws pools and knows the ground truth. Several
            engines can share them.
        rounds: the number of rounds T.
        seed: the seed of all random numbers.
        replicas: the replicas' numbers; a replica's decisions do not depend on other replicas.
        device: the device of tensors.
        at_once: the largest number of rounds to decide together, which does not affect decisions.
            None decides a chunk together, or half a chunk if pools are large.
        metrics: further metrics by column; both regrets are always recorded.
        picks: m, the number of candidates picked from each pool; all, if a pool is smaller.
        delay: the mean number of further rounds after which rewards arrive. Above 0, rounds are
            played one by one; an `Agent` with the same delays makes the same decisions.
        delay_law: `fixed` or `geometric`; see `Delays`.
    """

    def __init__(
        self,
        policy: Policy,
        environment: Environment,
        *,
        rounds: int,
        seed: int,
        replicas: Sequence[int],
        device: str | torch.device = "cpu",
        at_once: int | None = None,
        metrics: Mapping[str, Metric] = MappingProxyType({}),
        picks: int = 1,
        delay: int = 0,
        delay_law: str = "fixed",
    ) -> None:
        for part, kind in ((policy, Policy), (environment, Environment)):
            if not isinstance(part, kind):
                made = f"an instance of {kind.__name__}, as build returns"
                raise FairbanditError(f"expected {made}; got {shown(part)}")
        if not isinstance(replicas, Iterable):
            raise FairbanditError(
                f"replicas: expected their numbers, such as range(3); got {shown(replicas)}"
            )
        for name, number in {"picks": picks, "at_once": at_once}.items():
            if number is not None and number < 1:
                raise FairbanditError(f"{name} must be at least 1, got {number}")
        self.policy, self.environment, self.picks = policy, environment, picks
        if at_once is None:
            large = environment.places * CHUNK_ROUNDS > CANDIDATES
            at_once = CHUNK_ROUNDS // 2 if large else CHUNK_ROUNDS
        self.rounds, self.at_once = rounds, 1 if delay else at_once
        delays = Delays(delay, delay_law, seed)
        self.delays = delays if delay else None
        self.streams = Streams(seed, replicas, device)
        names = environment.group_names
        with environment.bound(self.streams):
            problem = Problem(
                features=environment.features,
                groups=len(names),
                streams=self.streams,
                exploration=environment.exploration,
                truth=environment.truth,
                unknown=tuple(code for code, name in enumerate(names) if is_unknown(name)),
            )
        self.history = policy.init(problem)
        self.size, self.decisions = BlockSize(policy, problem, environment.places), 0
        self.judge = Judge(metrics, problem, draws_models=policy.estimator.draws_models)

    @property
    def played(self) -> int:
        """The number of rounds played so far."""
        return self.history.rounds

    def play(self) -> Iterator[Played]:
        """Plays the remaining rounds, in pieces that end at multiples of `CHUNK_ROUNDS`."""
        if self.played >= self.rounds:
            raise FairbanditError(
                f"all {self.rounds:,} rounds are played; a new Engine plays them again"
            )
        while self.played < self.rounds:
            first = self.played + 1
            last = min(self.played // CHUNK_ROUNDS * CHUNK_ROUNDS + CHUNK_ROUNDS, self.rounds)
            with self.environment.bound(self.streams):
                pools = self.environment.pools(first, last - first + 1)
            reads, selections = self.policy.plan(first, last - first + 1).reads, []
            while self.played < last:
                played = self.played
                n_ready = int(reads[played + 1 - first :].searchsorted(played, "right"))
                n = min(self.size.next(n_ready), self.at_once, last - played)
                piece = pools[played + 1 - first : played + n + 1 - first]
                with torch.inference_mode():
                    selections.append(self._decide(piece, n_ready))
            joined = Selection(*(torch.cat(parts, 1) for parts in zip(*selections, strict=True)))
            yield self.judge.judge(first, pools, joined.squeezed())

    def _decide(self, pools: Pools, n_ready: int) -> Selection:
        policy, first, n = self.policy, self.played + 1, pools.groups.shape[1]
        history = policy.open(self.history, pools.contexts, pools.groups)
        selection, changes, decided = fixed_point(policy, history, pools, n_ready, self.picks)
        self.decisions += decided
        if n > n_ready:
            self.size.learn(n, changes, n_ready)
        outcomes = outcomes_of(first, pools, selection)
        self.history = policy.close(history, selection)
        arrived = self.delays.exchange(self.played, outcomes) if self.delays else [outcomes]
        for known in arrived:
            self.history = policy.tell(self.history, known)
        return selection


LAWS = ("fixed", "geometric")  # the distributions of delays


class Delays:
    """Holds the outcomes of round t until the decision of round t + D has been made.

    With D = 0 they arrive before the next decision. Fixed delays are all equal; geometric delays
    have P(D = k) = p(1 − p)ᵏ and the same mean. A delay depends only on the seed and the round, so
    all replicas of a run and all policies share it.

    >>> Delays(3, "fixed", seed=0).of_round(7)
    3
    """

    def __init__(self, mean: int, law: str, seed: int) -> None:
        if mean < 0 or law not in LAWS:
            raise FairbanditError(
                f"delay must be at least 0, and delay_law one of {', '.join(LAWS)}; got {mean} and "
                f"{law!r}"
            )
        self._mean, self._law = mean, law
        self._stream = Streams(seed, [0])[Purpose.DELAYS]
        self._waiting: dict[int, list[Outcomes]] = {}

    def of_round(self, t: int) -> int:
        """Returns the delay D of round t, from 1."""
        if not self._mean or self._law == "fixed":
            return self._mean
        drawn = self._stream.uniform(t, 1, 1).item()
        return int(math.log1p(-drawn) / math.log(self._mean / (1 + self._mean)))

    def exchange(self, t: int, outcomes: Outcomes) -> list[Outcomes]:
        """Adds the outcomes of round t; returns outcomes that arrive now, oldest round first."""
        self._waiting.setdefault(t + self.of_round(t), []).append(outcomes)
        return self._waiting.pop(t, [])

"""The engine: lets a policy, whichever it is, play an environment, in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from fairbandit.delays import Delays
from fairbandit.environments.base import Environment, Pools
from fairbandit.errors import FairbanditError
from fairbandit.fixed_point import BlockSize, fixed_point, outcomes_of
from fairbandit.metrics import Judge, Metric, Played
from fairbandit.modes import inferring
from fairbandit.part import Problem
from fairbandit.policy import Policy
from fairbandit.selectors import Selection
from fairbandit.streams import CHUNK_ROUNDS, Streams

CANDIDATES = 1 << 10
"""Where a chunk of pools has more candidates than this, half of it is decided at a time. Larger
pieces share more work, but their windows differ more, which costs masks."""


class Engine:
    """Plays one policy in one environment, for B replicas at once.

    Args:
        policy: decides.
        environment: draws pools and knows the truth; bound here.
        rounds: T.
        seed: of all random numbers.
        replicas: the replicas' numbers; each decides as it would alone.
        device: where tensors live.
        at_once: the most rounds to decide together; 1 plays round by round, with the same
            decisions. Unless given, all of a chunk's, or half as many where pools are large.
        metrics: what rounds are judged by, by column; bound here. Both regrets always are.
        picks: m, how many are picked of each pool; a pool of fewer candidates is taken whole.
        delay: after how many further rounds rewards come, on average; decisions are those of an
            `Agent` that is given each reward so late. Above 0, rounds are played one by one.
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
        for name, given in {"picks": picks, "at_once": at_once}.items():
            if given is not None and given < 1:
                raise FairbanditError(f"{name} must be at least 1, got {given}")
        self.policy, self.environment, self.picks = policy, environment, picks
        if at_once is None:
            many = environment.places * CHUNK_ROUNDS > CANDIDATES
            at_once = CHUNK_ROUNDS // 2 if many else CHUNK_ROUNDS
        self.rounds, self.at_once = rounds, 1 if delay else at_once
        self.delays = Delays(delay, delay_law, seed)
        self.streams = Streams(seed, replicas, device)
        environment.bind(self.streams)
        problem = Problem(
            features=environment.features,
            groups=len(environment.group_names),
            streams=self.streams,
            exploration=environment.exploration,
            truth=environment.truth,
        )
        self.known = policy.init(problem)
        self.size, self.decisions = BlockSize(policy, problem, environment.places), 0
        self.judge = Judge(metrics, problem, draws_models=policy.estimator.draws_models)

    @property
    def played(self) -> int:
        """How many rounds were played."""
        return self.known.past.rounds

    def play(self) -> Iterator[Played]:
        """Plays the rounds that are left, in pieces that end with a chunk of `CHUNK_ROUNDS`."""
        while self.played < self.rounds:
            first = self.played + 1
            last = min(self.played // CHUNK_ROUNDS * CHUNK_ROUNDS + CHUNK_ROUNDS, self.rounds)
            pools = self.environment.pools(first, last - first + 1)
            selections = []
            while self.played < last:
                played = self.played
                n_ready = self.policy.n_ready(played, last)
                n = max(n_ready, self.size.next(played, n_ready))
                n = min(n, self.at_once, last - played)
                piece = pools[played + 1 - first : played + n + 1 - first]
                selections.append(inferring(True, self._decide, piece, n_ready))
            whole = Selection(*(torch.cat(parts, 1) for parts in zip(*selections, strict=True)))
            yield self.judge.judge(first, pools, whole.squeezed())

    def state(self) -> dict[str, Any]:
        """All that is needed to continue after the last piece, as plain tensors and numbers."""
        return {
            "known": self.policy.state(self.known),
            "metrics": self.judge.state(),
            "waiting": self.delays.state(),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continues from a state that an engine of the same policy, problem and seed gave."""
        self.known = self.policy.restored(self.known, state["known"])
        self.judge.load_state(state["metrics"])
        self.delays.load_state(state["waiting"], self.known)

    def _decide(self, pools: Pools, n_ready: int) -> Selection:
        """Decides the rounds of some pools, of which the first `n_ready` need no guess."""
        policy, first, n = self.policy, self.played + 1, pools.groups.shape[1]
        past = self.known.past.with_pools(pools.contexts, pools.groups)
        known = self.known._replace(past=past)
        if n <= n_ready:
            selection = policy.propose(known, first, (pools.contexts, pools.groups), self.picks)
            self.decisions += n
        else:
            solution = fixed_point(policy, known, first, pools, n_ready, self.picks)
            selection = solution.selection
            self.size.learn(n, solution.changes, n_ready)
            self.decisions += solution.decisions
        outcomes = outcomes_of(first, pools, selection)
        groups = outcomes.groups.view(selection.actions.shape)
        self.known = policy.advance(known, groups)
        for come in self.delays.exchange(self.played, outcomes):
            self.known = policy.tell(self.known, come)
        return selection

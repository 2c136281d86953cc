"""The engine: lets a policy play an environment, in blocks. It knows no policy's name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from fairbandit.environments.base import Environment, Pools
from fairbandit.fixed_point import BlockSize, block_end, fixed_point
from fairbandit.maths.picks import of_pick
from fairbandit.metrics import Judge, Metric, Played
from fairbandit.parts import Outcomes, Problem, Selection
from fairbandit.policy import Policy
from fairbandit.streams import GRID, Streams

CANDIDATES = 1 << 10
"""Where a grid of pools has more candidates than this, half of it is decided at a time: what is
done for all at once becomes cheaper with more, and the ends of their windows, which differ, dearer.
"""


class Engine:
    """Plays one policy in one environment, for B replicas at once.

    Args:
        policy: decides; bound here.
        environment: draws pools and knows the truth; bound here.
        rounds: T.
        seed: of all random numbers.
        replicas: the replicas' numbers; each decides as it would alone.
        device: where tensors live.
        at_once: the most rounds to decide together; 1 plays round by round, with the same
            decisions. Unless given, all of the grid's, or half as many where pools are large.
        metrics: what rounds are judged by, by column; bound here. Both regrets always are.
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
    ) -> None:
        self.policy, self.environment = policy, environment
        if at_once is None:
            at_once = GRID // 2 if environment.places * GRID > CANDIDATES else GRID
        self.rounds, self.at_once = rounds, at_once
        self.streams = Streams(seed, replicas, device)
        environment.bind(self.streams)
        problem = Problem(
            features=environment.features,
            groups=len(environment.group_names),
            streams=self.streams,
            exploration=environment.exploration,
            truth=environment.truth,
        )
        policy.bind(problem)
        self.history = policy.history()
        self.size, self.decisions = BlockSize(policy, environment.places), 0
        self.judge = Judge(metrics, problem, draws_models=policy.estimator.draws_models)

    def play(self) -> Iterator[Played]:
        """Plays the rounds that are left, in pieces on the fixed grid of `streams.GRID` rounds."""
        while self.history.played < self.rounds:
            first = self.history.played + 1
            last = min(self.history.played // GRID * GRID + GRID, self.rounds)
            pools = self.environment.pools(first, last - first + 1)
            selections = []
            while self.history.played < last:
                played = self.history.played
                alone = block_end(self.policy, last, played) - played
                n = max(alone, self.size.next(played, alone))
                n = min(n, self.at_once, last - played)
                piece = pools[played + 1 - first : played + n + 1 - first]
                selections.append(self._decide(piece, alone))
            with self.policy.mode():
                self.policy.forget(self.history)
            whole = Selection(*(torch.cat(parts, 1) for parts in zip(*selections, strict=True)))
            yield self.judge.judge(first, pools, whole)

    def state(self) -> dict[str, Any]:
        """All that is needed to continue after the last piece, as plain tensors and numbers."""
        return {
            "parts": self.policy.state(),
            "history": self.history.state(),
            "size": self.size.state(),
            "metrics": self.judge.state(),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continues from a state that an engine of the same policy, problem and seed gave."""
        self.policy.load_state(state["parts"])
        self.history.load_state(state["history"])
        self.size.load_state(state["size"])
        self.judge.load_state(state["metrics"])

    def _decide(self, pools: Pools, alone: int) -> Selection:
        """Decides the next rounds, the first of which, so many, read none of the others."""
        policy, history, n = self.policy, self.history, pools.groups.shape[1]
        first, contexts, groups = history.played + 1, pools.contexts, pools.groups
        with policy.mode():
            history.add_pools(contexts, groups)
            if n <= alone:
                proposal = policy.propose(first, contexts, groups, history)
                self.decisions += n
            else:
                solution = fixed_point(policy, history, first, pools, alone)
                proposal = solution.proposal
                self.size.learn(n, solution.changes, alone)
                self.decisions += solution.decisions
            policy.accept(first, contexts, groups, proposal, history)
            picks = (contexts, groups, pools.rewards)
            outcomes = Outcomes(*(of_pick(part, proposal.selection.actions) for part in picks))
            policy.take_in(first, outcomes, history)
            return proposal.selection

"""A policy: a split, an estimator, a rank and a selector, and nothing else."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from fairbandit import registry
from fairbandit.errors import FairbanditError
from fairbandit.parts import (
    Candidates,
    Estimator,
    History,
    Outcomes,
    Part,
    Problem,
    Rank,
    Selector,
    Split,
)
from fairbandit.parts.base import KEYS_STAY
from fairbandit.streams import Purpose


class Policy:
    """Decides rounds from the past, by composition of its four parts.

    Args:
        split: which past rounds feed what.
        estimator: turns the past into reward models.
        rank: turns scores into the index.
        selector: picks from the index.
        name: what results call it.
    """

    def __init__(
        self,
        split: Split,
        estimator: Estimator,
        rank: Rank,
        selector: Selector,
        name: str = "custom",
    ) -> None:
        self.split, self.estimator, self.rank, self.selector = split, estimator, rank, selector
        self.name = name

    @property
    def parts(self) -> dict[str, Part]:
        """The parts by kind."""
        return {kind: getattr(self, kind) for kind in registry.PART_KINDS}

    def mode(self) -> torch.inference_mode:
        """The context to decide and learn in: torch's inference mode, if no part differentiates."""
        return torch.inference_mode(not any(part.autograd for part in self.parts.values()))

    def bind(self, problem: Problem) -> None:
        """Prepares every part for a problem.

        Raises:
            FairbanditError: a part needs a truth that the problem lacks.
        """
        self.problem = problem
        for part in self.parts.values():
            part.bind(problem)
        self._keys = self._state_keys()

    def grow(self, problem: Problem) -> None:
        """Goes on in a problem with more groups."""
        self.problem = problem
        for part in self.parts.values():
            part.grow(problem)
        self._keys = self._state_keys()

    def state(self) -> dict[str, Any]:
        """What every part must remember, by kind.

        Raises:
            FairbanditError: a part whose state has other keys than it had when it was bound, so
                that it could not be loaded.
        """
        states = {kind: part.state() for kind, part in self.parts.items()}
        for kind, state in states.items():
            if set(state) != self._keys[kind]:
                raise FairbanditError(
                    f"the state of {kind} {self.parts[kind].part_name!r} had the keys "
                    f"{sorted(self._keys[kind])} after `bind` and has {sorted(state)} now: "
                    f"{KEYS_STAY}"
                )
        return states

    def snapshot(self) -> dict[str, Any]:
        """The state as it is now, which stays so whatever the parts do next."""
        return {kind: part.snapshot() for kind, part in self.parts.items()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state that the same policy, bound to the same problem, gave."""
        for kind, part in self.parts.items():
            part.load_state(state[kind])

    def _state_keys(self) -> dict[str, set[str]]:
        return {kind: set(part.state()) for kind, part in self.parts.items()}

    def reach(self, t: int) -> int:
        """The last round whose reward the decision at round t reads."""
        return max(self.estimator.reach(t), self.rank.reach(t))

    def decide(self, first: int, contexts: Tensor, groups: Tensor, history: History) -> Tensor:
        """Decides N consecutive rounds, none of which reads a reward that is not known yet.

        Args:
            first: the first of the rounds, from 1.
            contexts: (B, N, K, d).
            groups: (B, N, K) int64, −1 an empty place.
            history: past outcomes, and the pools up to the last of these rounds.

        Returns:
            Actions, (B, N) int64.
        """
        n = groups.shape[1]
        spans = self.split.between(first, first + n - 1)
        blind = self._blind(first, n, history)
        if 0 < blind < n:
            one = self.decide(first, contexts[:, :blind], groups[:, :blind], history)
            rest = self.decide(first + blind, contexts[:, blind:], groups[:, blind:], history)
            return torch.cat([one, rest], 1)
        if blind:
            index = tie = torch.zeros(groups.shape, dtype=self.problem.dtype, device=groups.device)
        else:
            history.taken = self.split.taught(first + n - 1)
            model, of_round = self.estimator.models(spans.taught, history)
            stream = self.problem.streams[Purpose.RANK]
            asked = Candidates(first, spans, contexts, groups, model, of_round, history, stream)
            index = self.rank.index(asked)
            tie = self.rank.tie(index, asked)
        self.rank.observe(first, contexts, groups)
        return self.selector.select(first, index, tie, groups >= 0)

    def _blind(self, first: int, n: int, history: History) -> int:
        """How many of n rounds a learning policy, having learned nothing, picks uniformly."""
        if not self.estimator.learns:
            return 0
        rounds = range(first, first + n)
        return bisect_left(rounds, history.earliest, key=self.split.taught)

    def observe(self, first: int, contexts: Tensor, groups: Tensor, history: History) -> None:
        """Takes in N consecutive rounds that others decided.

        Args:
            first: the first of the rounds, from 1.
            contexts: (B, N, K, d).
            groups: (B, N, K) int64, −1 an empty place.
            history: outcomes and pools up to the last of these rounds.
        """
        self.rank.observe(first, contexts, groups)
        taught = self.split.taught(history.played)
        if self.estimator.learns and taught >= history.earliest:
            history.taken = taught
            self.estimator.absorb(taught, history)
        self.forget(history)

    def learn(self, t: int, outcome: Outcomes, history: History) -> None:
        """Takes in the reward of a round that was decided before, whenever it comes.

        Args:
            t: the round.
            outcome: its pick, group and reward, (B, 1, …).
            history: what is known of the past; holds the round as unknown.

        Raises:
            FairbanditError: an estimator that cannot learn from late rewards, and has gone on.
        """
        if self.estimator.learns and t <= history.taken:
            self.estimator.amend(outcome.contexts, outcome.rewards)
        history.learn(t, outcome)

    def forget(self, history: History) -> None:
        """Lets go of what no later round reads, once the rounds played are all decided."""
        played = history.played
        taken = history.taken if self.estimator.learns else played
        history.forget(outcomes=taken, contexts=self.split.after(played + 1))

    def describe(self) -> dict[str, Any]:
        """Plain data from which `fairbandit.build` makes the same policy again."""
        parts = {kind: registry.describe(part) for kind, part in self.parts.items()}
        return {"name": self.name, **parts}


def blocks(policy: Policy, rounds: int, after: int = 0) -> Iterator[tuple[int, int]]:
    """Stretches of rounds that can each be decided at once.

    Once n rounds are played, every round with reach(t) ≤ n can be decided.

    Args:
        policy: a bound policy.
        rounds: the last round.
        after: how many rounds are played already.

    Yields:
        (n, m): rounds n+1 … m. Under `halves` m = 2n + 2.

    Raises:
        FairbanditError: a part whose decision at round t reads the reward of round t or later.
    """
    played = after
    while played < rounds:
        end, step = played, 1  # most blocks are of one round, or of very many
        while end < rounds and policy.reach(min(end + step, rounds)) <= played:
            end, step = min(end + step, rounds), 2 * step
        between = range(end + 1, min(end + step, rounds))
        end += bisect_right(between, played, key=policy.reach)
        if end == played:
            raise FairbanditError(
                f"round {played + 1} cannot be decided: policy {policy.name!r} says that it reads "
                f"the reward of round {policy.reach(played + 1)}"
            )
        yield played, end
        played = end

"""A policy: a split, an estimator, a rank and a selector, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from fairbandit import registry
from fairbandit.errors import FairbanditError
from fairbandit.parts import (
    Candidates,
    Estimator,
    History,
    Part,
    Problem,
    Rank,
    Selector,
    Split,
)
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

    def bind(self, problem: Problem) -> None:
        """Prepares every part for a problem.

        Raises:
            FairbanditError: a part needs an oracle that the problem lacks.
        """
        self.problem = problem
        for part in self.parts.values():
            part.bind(problem)

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
        blind = self._blind(first, n)
        if 0 < blind < n:
            one = self.decide(first, contexts[:, :blind], groups[:, :blind], history)
            rest = self.decide(first + blind, contexts[:, blind:], groups[:, blind:], history)
            return torch.cat([one, rest], 1)
        if blind:
            index = tie = torch.zeros(groups.shape, dtype=self.problem.dtype, device=groups.device)
        else:
            model, of_round = self.estimator.models(spans.taught, history)
            stream = self.problem.streams[Purpose.RANK]
            asked = Candidates(first, spans, contexts, groups, model, of_round, history, stream)
            index = self.rank.index(asked)
            tie = self.rank.tie(index, asked)
        self.rank.observe(first, contexts, groups)
        return self.selector.select(first, index, tie, groups >= 0)

    def _blind(self, first: int, n: int) -> int:
        """How many of n rounds a learning policy, having learned nothing, picks uniformly."""
        if not self.estimator.learns:
            return 0
        return sum(self.split.taught(t) == 0 for t in range(first, first + n))

    def forget(self, history: History) -> None:
        """Lets go of what no later round reads, once the rounds played are all decided."""
        played = history.played
        # the estimator has taken in what taught round `played`, and no more
        taught = self.split.taught(played) if self.estimator.learns else played
        after = self.split.between(played + 1, played + 1).after
        history.forget(outcomes=taught, contexts=int(after))

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
        end = played
        while end < rounds and policy.reach(end + 1) <= played:
            end += 1
        if end == played:
            raise FairbanditError(
                f"round {played + 1} cannot be decided: policy {policy.name!r} says that it reads "
                f"the reward of round {policy.reach(played + 1)}"
            )
        yield played, end
        played = end

"""Picks and their rewards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairbandit.formats import fitted, within


class Outcomes(NamedTuple):
    """Picks whose rewards are known, in order of round; a round may have none, or several.

    Those of one round are in any order. A slot that a small pool leaves empty is an outcome of
    group −1, whose context and reward are 0: it must not count.

    Attributes:
        rounds: when each pick was made, (n,) int64, nondecreasing.
        contexts: the picks' features, (B, n, d).
        groups: the picks' groups, (B, n) int64.
        rewards: their noisy rewards, (B, n).
    """

    rounds: Tensor
    contexts: Tensor
    groups: Tensor
    rewards: Tensor

    @property
    def n(self) -> int:
        """How many there are."""
        return self.rounds.shape[0]

    def counts(self, rounds: Sequence[int]) -> list[int]:
        """How many outcomes are of rounds 1 … t, for each given t."""
        if self.rounds.device.type == "cpu":  # several times as fast
            return self.rounds.numpy().searchsorted(rounds, side="right").tolist()
        asked = torch.tensor(rounds, device=self.rounds.device)
        return torch.searchsorted(self.rounds, asked, right=True).tolist()

    def rows(self, start: int, stop: int) -> Outcomes:
        """Outcomes number start … stop − 1, as views."""
        if start == 0 and stop == self.n:
            return self
        rounds, contexts, groups, rewards = self
        some = slice(start, stop)
        return Outcomes(rounds[some], contexts[:, some], groups[:, some], rewards[:, some])

    def restored(self, parts: Sequence[Any], last: int, groups: int) -> Outcomes:
        """Returns outcomes that were read, of rounds 1 … last; these are of the same problem.

        Raises:
            ValueError: they do not fit the problem, or each other.
        """
        none = self.rows(0, 0)
        found = Outcomes(*(fitted(*pair) for pair in zip(parts, none, strict=True)))
        sizes = {found.n, *(part.shape[1] for part in found[1:])}
        there = within(found.rounds, 1, last) and within(found.groups, -1, groups - 1)
        if len(sizes) > 1 or not there:
            raise ValueError("outcomes are not of the rounds and groups that there are")
        return found

    def copied(self) -> Outcomes:
        """The same outcomes, in memory of their own."""
        return Outcomes(*(part.clone() for part in self))

    def and_then(self, later: Outcomes) -> Outcomes:
        """These outcomes, and others of rounds that are not earlier."""
        if not self.n or not later.n:
            return later if not self.n else self
        rounds, *others = zip(self, later, strict=True)
        return Outcomes(torch.cat(rounds), *(torch.cat(parts, 1) for parts in others))

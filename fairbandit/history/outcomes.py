"""Picks and their rewards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairbandit.files.formats import fitted, within


class Outcomes(NamedTuple):
    """Picks whose rewards are known, in order of round.

    A round may have no outcome or several outcomes, in any order. If a small pool leaves a slot of
    a shortlist empty, the outcome of this slot has group −1, and its context and reward are 0; it
    must not count.

    Attributes:
        rounds: the round of each pick, (n,) int64, nondecreasing.
        contexts: the picks' features, (B, n, d).
        groups: the picks' groups, (B, n) int64.
        rewards: the picks' noisy rewards, (B, n).
    """

    rounds: Tensor
    contexts: Tensor
    groups: Tensor
    rewards: Tensor

    @property
    def n(self) -> int:
        """The number of outcomes."""
        return self.rounds.shape[0]

    def counts(self, rounds: Sequence[int]) -> list[int]:
        """The number of outcomes of rounds 1 … t, for each given t."""
        if self.rounds.device.type == "cpu":  # several times as fast
            return self.rounds.numpy().searchsorted(rounds, side="right").tolist()
        asked = torch.tensor(rounds, device=self.rounds.device)
        return torch.searchsorted(self.rounds, asked, right=True).tolist()

    def rows(self, start: int, stop: int) -> Outcomes:
        """Outcomes start … stop − 1, as views."""
        if start == 0 and stop == self.rounds.shape[0]:
            return self
        rounds, contexts, groups, rewards = self
        some = slice(start, stop)
        return Outcomes(rounds[some], contexts[:, some], groups[:, some], rewards[:, some])

    def restored(self, parts: Sequence[Any], last: int, groups: int) -> Outcomes:
        """Outcomes of rounds 1 … last from parts of a saved state.

        This object determines sizes, dtypes and the device.

        Raises:
            ValueError: the parts do not fit these sizes, or do not fit each other.
        """
        none = self.rows(0, 0)
        found = Outcomes(*(fitted(*pair) for pair in zip(parts, none, strict=True)))
        sizes = {found.n, *(part.shape[1] for part in found[1:])}
        there = within(found.rounds, 1, last) and within(found.groups, -1, groups - 1)
        if len(sizes) > 1 or not there:
            raise ValueError("outcomes do not match the rounds and groups of the state")
        return found

    def copied(self) -> Outcomes:
        """A copy that shares no memory with these outcomes."""
        return Outcomes(*(part.clone() for part in self))

    def and_then(self, later: Outcomes) -> Outcomes:
        """These outcomes followed by others, whose rounds must not be earlier."""
        if not self.n or not later.n:
            return later if not self.n else self
        rounds, *others = zip(self, later, strict=True)
        return Outcomes(torch.cat(rounds), *(torch.cat(parts, 1) for parts in others))

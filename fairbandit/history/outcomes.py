"""Picks and their rewards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Outcomes(NamedTuple):
    """Picks whose rewards are known, in order of round.

    A round may lack an outcome, or have several, in any order. If a small pool leaves a slot of
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
        last = torch.tensor(rounds, device=self.rounds.device)
        return torch.searchsorted(self.rounds, last, right=True).tolist()

    def rows(self, start: int, stop: int) -> Outcomes:
        """Outcomes start … stop − 1, as views."""
        if start == 0 and stop == self.rounds.shape[0]:
            return self
        rounds, contexts, groups, rewards = self
        part = slice(start, stop)
        return Outcomes(rounds[part], contexts[:, part], groups[:, part], rewards[:, part])

    def copied(self) -> Outcomes:
        """A copy that shares no memory with these outcomes."""
        return Outcomes(*(part.clone() for part in self))

    def and_then(self, later: Outcomes) -> Outcomes:
        """These outcomes followed by others, whose rounds must not be earlier."""
        if not self.n or not later.n:
            return later if not self.n else self
        rounds, *picks = zip(self, later, strict=True)
        return Outcomes(torch.cat(rounds), *(torch.cat(parts, 1) for parts in picks))


def gather_picks(values: Tensor, actions: Tensor, empty: float | None = None) -> Tensor:
    """Gathers values (B, N, K, …) at places (B, N) or (B, N, m) to (B, N, …) or (B, N, m, …).

    Empty slots, −1, get the value `empty`; None is NaN, or −1 if values are whole numbers.
    """
    slots = actions if actions.ndim == 3 else actions[..., None]
    slots = slots.view(*slots.shape, *[1] * (values.ndim - 3))
    index = slots.clamp(min=0).expand(-1, -1, -1, *values.shape[3:])
    if empty is None:
        empty = torch.nan if values.is_floating_point() else -1
    picked = values.gather(2, index).masked_fill(slots < 0, empty)
    return picked if actions.ndim == 3 else picked.squeeze(2)

"""Decisions whose rewards have not come."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.maths.checks import shown
from fairbandit.past import Outcomes

SHOWN = 10
"""A message names at most so many of those that wait."""


class Tickets(NamedTuple):
    """The picks of rounds that wait for a reward, a value; a ticket is the round's number.

    Attributes:
        picks: the contexts (1, m, d) and the groups (1, m) of the m picks of each round, oldest
            first.
        latest: the ticket of the last decision, None before there is one.
    """

    picks: Mapping[int, tuple[Tensor, Tensor]]
    latest: int | None

    def add(self, t: int, contexts: Tensor, groups: Tensor) -> Tickets:
        """With the picks of the latest round."""
        return Tickets({**self.picks, t: (contexts, groups)}, t)

    def remove(self, t: int) -> Tickets:
        """Without a round."""
        picks = {other: pick for other, pick in self.picks.items() if other != t}
        return Tickets(picks, self.latest)

    def give_up(self, rounds: int, patience: int | None) -> Tickets:
        """After so many rounds, without the rewards that patience has run out for."""
        first = 0 if patience is None else rounds - patience
        if next(iter(self.picks), first) >= first:
            return self
        return Tickets({t: pick for t, pick in self.picks.items() if t >= first}, self.latest)

    def find(self, given: Any) -> int:
        """The round that a ticket stands for.

        Raises:
            FairbanditError: a round that waits for no reward.
        """
        try:
            t = operator.index(given)
        except TypeError:
            t = 0
        if t not in self.picks:
            waiting = ", ".join(map(str, list(self.picks)[:SHOWN])) or "none"
            more = ", …" if len(self.picks) > SHOWN else ""
            raise FairbanditError(
                f"no decision waits for a reward by ticket {shown(given)}: it came already, was "
                f"given up, or there is no such decision; those that wait are {waiting}{more}"
            )
        return t

    def outcomes(self, t: int, reward: float) -> Outcomes:
        """What a round gave, whose reward has come."""
        contexts, groups = self.picks[t]
        rewards = torch.from_numpy(np.full(groups.shape, reward))  # much faster than torch.tensor
        return Outcomes(torch.from_numpy(np.array([t])), contexts, groups, rewards)

    def state(self, features: int) -> dict[str, Any]:
        """All that waits, as plain tensors and numbers."""
        none = torch.zeros(1, 0, features, dtype=torch.float64)
        return {
            "latest": self.latest,
            "tickets": list(self.picks),
            "groups": [int(groups) for _, groups in self.picks.values()],
            "contexts": torch.cat([none, *(contexts for contexts, _ in self.picks.values())], 1),
        }

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Self:
        """The tickets that gave a state."""
        contexts = [one[:, None].clone() for one in state["contexts"].unbind(1)]
        groups = [torch.tensor([[group]]) for group in state["groups"]]
        picks = zip(contexts, groups, strict=True)
        return cls(dict(zip(state["tickets"], picks, strict=True)), state["latest"])

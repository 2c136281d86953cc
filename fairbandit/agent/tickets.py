"""Decisions whose rewards have not come."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.maths.checks import shown
from fairbandit.past import Outcomes

SHOWN = 10
"""A message names at most so many of those that wait."""


@dataclass(frozen=True, eq=False)
class Tickets:
    """The picks of rounds that wait for a reward, a value; a ticket is the round's number.

    Attributes:
        patience: a reward that has not come after so many further rounds is not waited for any
            more; None waits for ever.
        picks: the context (1, 1, d) and the group of each pick by its ticket, oldest first.
        latest: the ticket of the last decision, None before there is one.
    """

    patience: int | None
    picks: Mapping[int, tuple[Tensor, int]] = field(default_factory=dict)
    latest: int | None = None

    def add(self, t: int, context: Tensor, group: int) -> Tickets:
        """With the pick of the latest round, of a context (1, 1, d)."""
        return replace(self, picks={**self.picks, t: (context, group)}, latest=t).give_up(t)

    def remove(self, t: int) -> Tickets:
        """Without a round."""
        return replace(self, picks={other: self.picks[other] for other in self.picks if other != t})

    def give_up(self, rounds: int) -> Tickets:
        """After so many rounds, without rewards that patience has run out for."""
        last = 0 if self.patience is None else rounds - self.patience
        if next(iter(self.picks), last) >= last:
            return self
        return replace(self, picks={t: pick for t, pick in self.picks.items() if t >= last})

    def find(self, given: Any, rounds: int) -> int:
        """The round that a ticket stands for, where there were so many rounds so far.

        Raises:
            FairbanditError: a round that waits for no reward.
        """
        try:
            t = operator.index(given)
        except TypeError:
            t = 0
        if t in self.picks:
            return t
        kept = ", ".join(map(str, list(self.picks)[:SHOWN])) or "none"
        kept += ", …" if len(self.picks) > SHOWN else ""
        raise FairbanditError(
            f"round {t} waits for no reward: it came already, was given up, or the round was "
            f"observed with it; those that wait are {kept}"
            if 0 < t <= rounds
            else f"no decision has ticket {shown(given)}; those that wait for a reward are {kept}"
        )

    def outcome(self, t: int, reward: float) -> Outcomes:
        """What a round gave, whose reward has come."""
        context, group = self.picks[t]
        numbers = np.array([t]), np.array([[group]]), np.array([[reward]])
        rounds, groups, rewards = map(torch.from_numpy, numbers)  # much faster than torch.tensor
        return Outcomes(rounds, context, groups, rewards)

    def state(self, features: int) -> dict[str, Any]:
        """All that waits, as plain tensors and numbers."""
        none = torch.zeros(1, 0, features, dtype=torch.float64)
        return {
            "latest": self.latest,
            "tickets": list(self.picks),
            "groups": [group for _, group in self.picks.values()],
            "contexts": torch.cat([none, *(context for context, _ in self.picks.values())], 1),
        }

    def restored(self, state: Mapping[str, Any]) -> Tickets:
        """The tickets that gave a state."""
        contexts = [context[:, None].clone() for context in state["contexts"].unbind(1)]
        picks = dict(
            zip(state["tickets"], zip(contexts, state["groups"], strict=True), strict=True)
        )
        return replace(self, picks=picks, latest=state["latest"])

"""Decisions whose rewards have not come."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.maths.checks import shown
from fairbandit.parts import Outcomes

SHOWN = 10
"""A message names at most so many of those that wait."""


class Tickets:
    """The picks of rounds that wait for a reward, oldest first; a ticket is the round's number.

    Once the attributes are what they were, `undo` takes back the changes since the last `begin`.

    Args:
        features: d.
        patience: a reward that has not come after so many further rounds is not waited for any
            more; None waits for ever.

    Attributes:
        latest: the ticket of the last decision, None before there is one.
    """

    def __init__(self, features: int, patience: int | None) -> None:
        self._patience = patience
        self._none = torch.zeros(1, 0, features, dtype=torch.float64)
        self._picks: dict[int, tuple[Tensor, int]] = {}
        self._gone: dict[int, tuple[Tensor, int]] = {}  # since `begin`
        self.latest: int | None = None

    def __iter__(self) -> Iterator[int]:
        """The tickets."""
        return iter(self._picks)

    def add(self, t: int, context: Tensor, group: int) -> None:
        """Waits for the reward of the latest round, whose pick had this context, (1, 1, d)."""
        self._picks[t], self.latest = (context, group), t
        self.give_up(t)

    def begin(self) -> None:
        """Changes from here on may be taken back."""
        self._gone = {}

    def undo(self, rounds: int) -> None:
        """Waits for the same rewards as at `begin`, when there were so many rounds."""
        picks = {**self._picks, **self._gone}
        self._picks = {t: picks[t] for t in sorted(picks) if t <= rounds}

    def find(self, given: Any, rounds: int) -> int:
        """The round that a ticket stands for, where there were so many rounds so far.

        Raises:
            FairbanditError: a round that waits for no reward.
        """
        try:
            t = operator.index(given)
        except TypeError:
            t = 0
        if t in self._picks:
            return t
        kept = ", ".join(map(str, list(self._picks)[:SHOWN])) or "none"
        kept += ", …" if len(self._picks) > SHOWN else ""
        raise FairbanditError(
            f"round {t} waits for no reward: it came already, was given up, or the round was "
            f"observed with it; those that wait are {kept}"
            if 0 < t <= rounds
            else f"no decision has ticket {shown(given)}; those that wait for a reward are {kept}"
        )

    def outcome(self, t: int, reward: float) -> Outcomes:
        """What a round gave, whose reward has come."""
        context, group = self._picks[t]
        numbers = np.array([[group]]), np.array([[reward]])  # much faster than torch.tensor
        return Outcomes(context, *map(torch.from_numpy, numbers))

    def remove(self, t: int) -> None:
        """Waits no longer for a round's reward."""
        self._gone[t] = self._picks[t]
        del self._picks[t]

    def give_up(self, rounds: int) -> None:
        """After so many rounds, waits no longer for rewards that patience has run out for."""
        if self._patience is not None:
            while self._picks and (oldest := next(iter(self._picks))) < rounds - self._patience:
                self.remove(oldest)

    def state(self) -> dict[str, Any]:
        """All that is kept, as plain tensors and numbers."""
        contexts = [context for context, _ in self._picks.values()]
        return {
            "tickets": list(self._picks),
            "groups": [group for _, group in self._picks.values()],
            "contexts": torch.cat([self._none, *contexts], 1),
        }

    def load_state(self, state: Mapping[str, Any], latest: int | None) -> None:
        """Continues from a state that `state` gave."""
        self.latest = latest
        contexts = state["contexts"].unbind(1)
        for t, code, context in zip(state["tickets"], state["groups"], contexts, strict=True):
            self._picks[t] = context[:, None].clone(), code

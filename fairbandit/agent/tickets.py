"""Decisions whose rewards have not come."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.maths import checks
from fairbandit.maths.checks import shown
from fairbandit.parts import Outcomes

SHOWN = 10
"""A message names at most so many of those that wait."""


class Tickets:
    """The picks of rounds that wait for a reward, oldest first; a ticket is the round's number.

    Args:
        features: d.
        patience: a reward that has not come after so many further rounds is not waited for any
            more; None waits for ever.

    Changes since the last `begin` can be taken back, once the attributes are bound as they were.

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

    def newest(self) -> int:
        """The ticket of the last decision.

        Raises:
            FairbanditError: there is none yet.
        """
        if self.latest is None:
            raise FairbanditError("no decision was made yet that a reward could be of")
        return self.latest

    def find(self, given: Any, rounds: int) -> int:
        """The round that a ticket stands for.

        Args:
            given: the ticket of a decision.
            rounds: how many there were so far.

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
        # of a number, much faster than torch.tensor
        numbers = torch.from_numpy(np.array([[group]])), torch.from_numpy(np.array([[reward]]))
        return Outcomes(context, *numbers)

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

    def load_state(
        self, state: Mapping[str, Any], latest: int | None, rounds: int, groups: int
    ) -> None:
        """Goes on from a state that `state` gave, and from the last decision.

        Args:
            state: what waits.
            latest: the ticket of the last decision.
            rounds, groups: how many there are.

        Raises:
            FairbanditError: a state of other rounds, groups or features.
        """
        self.latest = None if latest is None else checks.count("latest", latest, 1, rounds)
        contexts = checks.like("contexts", state["contexts"], self._none, free=1)
        tickets = checks.length("tickets", state["tickets"], contexts.shape[1])
        codes = checks.length("groups", state["groups"], len(tickets))
        least = 1
        for at, (ticket, code) in enumerate(zip(tickets, codes, strict=True)):
            t = checks.count("tickets", ticket, least, rounds)
            code = checks.count("groups", code, 0, groups - 1)
            self._picks[t], least = (contexts[:, at : at + 1].clone(), code), t + 1

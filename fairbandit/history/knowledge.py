"""All that a policy knows, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fairbandit.history.past import Past
from fairbandit.history.problem import Problem

State = Any
"""What an estimator has learned: plain tuples of tensors and numbers, never changed in place."""


class Knowledge(NamedTuple):
    """All that a policy knows; each step of a policy returns a new value.

    Attributes:
        problem: the problem that is played.
        past: the pools, picks and rewards so far.
        state: the estimator's state that the reward model in use begins with.
        trained: the number of first rounds whose outcomes `state` includes, as far as they were
            known at its first decision.
        ahead: None, unless outcomes are summed ahead of a refresh (`Policy.sums_ahead`). Then the
            states that take in outcomes as they come, each by the number of first rounds that it
            includes. At a refresh the next of them becomes `state`; `trained` is 0 until then.
    """

    problem: Problem
    past: Past
    state: State = ()
    trained: int = 0
    ahead: Mapping[int, State] | None = None

    def state_at(self, n_train: int) -> tuple[int, State]:
        """The state that a reward model of so many rounds begins with, and `trained` of it."""
        if self.ahead is None:
            return self.trained, self.state
        if due := [n for n in self.ahead if n <= n_train]:
            return n_train, self.ahead[max(due)]
        return n_train if self.trained else 0, self.state

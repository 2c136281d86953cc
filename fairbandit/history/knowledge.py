"""All that a policy knows, as a value."""

from __future__ import annotations

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
        state: the estimator's state, which includes the known outcomes of rounds 1 … trained.
        trained: the number of first rounds that `state` includes.
    """

    problem: Problem
    past: Past
    state: State = ()
    trained: int = 0

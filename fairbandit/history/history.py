"""All that a policy knows before a decision, as a value."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from fairbandit.history.past import Past
from fairbandit.history.problem import Problem

State = Any
"""What an estimator has learned: plain tuples of tensors and numbers, never changed in place."""


class Block(NamedTuple):
    """N consecutive rounds with their pools.

    Attributes:
        first: the first of the rounds, from 1.
        contexts, groups: the pools, (B, N, K, d) and (B, N, K) int64, −1 for an empty place.
    """

    first: int
    contexts: Tensor
    groups: Tensor


class History(NamedTuple):
    """All that a policy knows; each step of a policy returns a new value.

    Attributes:
        problem: the problem that is played.
        past: the pools, picks and rewards so far, with the pools of the open block.
        state: the estimator's state, which includes the known outcomes of rounds 1 … n_state.
        n_state: the number of first rounds that `state` includes.
        open: the rounds to decide; None between two blocks.
        rewards_pending: whether no reward comes between the rounds of the open block, although they
            are played one after another.
    """

    problem: Problem
    past: Past
    state: State = ()
    n_state: int = 0
    open: Block | None = None
    rewards_pending: bool = False

    @property
    def block(self) -> Block:
        """The open block."""
        assert self.open is not None, "no block is open"
        return self.open

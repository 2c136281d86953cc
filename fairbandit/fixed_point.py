"""Sequential play in parallel: the picks of a block of rounds as the fixed point of deciding.

A policy that reads the reward of the round before cannot decide two rounds at once. But in a
simulation the rewards of all candidates are drawn. So guess the picks of a block, train the exact
models of its rounds on the guess, repeat the decisions with these models, and repeat until the
picks repeat. This is a Jacobi iteration, and no approximation: if the first i picks are those of
sequential play, then the next decision reads nothing but right picks, so that i + 1 are. By
induction the fixed point exists, is unique, and is sequential play. Random draws belong to rounds,
so that each repetition draws the same.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from fairbandit.environments.base import Pools
from fairbandit.errors import FairbanditError
from fairbandit.maths.picks import of_pick
from fairbandit.parts import History, Outcomes, Selection
from fairbandit.policy import Policy, Proposal
from fairbandit.streams import GRID


def block_end(policy: Policy, rounds: int, played: int) -> int:
    """The last round that can be decided once some rounds are played: last_read(t) ≤ played.

    Args:
        policy: a bound policy.
        rounds: the last round, above `played`.
        played: how many rounds are played already.

    Raises:
        FairbanditError: a part whose decision at round t reads round t or later.
    """
    end, step = played, 1  # most blocks are of one round, or of very many
    while end < rounds and policy.last_read(min(end + step, rounds)) <= played:
        end = min(end + step, rounds)
        step = end - played
    between = range(end + 1, min(end + step, rounds))
    end += bisect_right(between, played, key=policy.last_read)
    if end == played:
        raise FairbanditError(
            f"round {played + 1} cannot be decided: policy {policy.name!r} says that it reads "
            f"the reward or the pick of round {policy.last_read(played + 1)}"
        )
    return end


class Solution(NamedTuple):
    """The fixed point of a block, and what it took.

    Attributes:
        proposal: the picks of the block's rounds, and what their last models were trained on.
        repetitions: how often rounds were decided.
        changes: how many repetitions changed a pick.
        decisions: how many rounds were decided in all repetitions together.
    """

    proposal: Proposal
    repetitions: int
    changes: int
    decisions: int


def fixed_point(policy: Policy, history: History, first: int, pools: Pools, alone: int) -> Solution:
    """Decides N rounds at once, although later ones depend on outcomes of earlier ones.

    It guesses the outcomes, decides, and repeats with the outcomes of these picks until no pick
    changes, N times at most. Policy and history are left as they were.

    Args:
        policy: a bound policy for which `can_suppose` is true.
        history: the outcomes of the rounds before `first`; the pools of the N rounds are added.
        first: the first round of the block, from 1.
        pools: the N rounds, with the rewards of all their candidates.
        alone: how many leading rounds depend on no outcome of the block, at least 1.

    Returns:
        Picks equal to those of deciding round by round.
    """
    parts = contexts, groups, _ = pools.contexts, pools.groups, pools.rewards
    zeros = Outcomes(*(torch.zeros_like(part[:, :, 0]) for part in parts))
    history.suppose(first, zeros._replace(groups=zeros.groups - 1), known=history.played)
    proposal = policy.propose(first, contexts, groups, history)
    before, n = first - 1, groups.shape[1]
    # The first `right` picks are those of sequential play; the first `done` of them are put aside.
    right, done, decisions, selections = alone, 0, n, list[Selection]()
    repetitions, changes = 1, 0
    while right < n:
        guess = proposal.selection
        picks = (of_pick(part[:, done:], guess.actions) for part in parts)
        history.suppose(first + done, Outcomes(*picks))
        selections.append(Selection(*(part[:, : right - done] for part in guess)))
        guessed, done = guess.actions[:, right - done :], right
        proposal = policy.propose(first + done, contexts[:, done:], groups[:, done:], history)
        repetitions, decisions = repetitions + 1, decisions + n - done
        changed = (proposal.selection.actions != guessed).any(0).nonzero()
        if not len(changed):
            break
        # A round that reads only confirmed picks is decided rightly, even if its own pick changed.
        right = block_end(policy, before + n, before + right + int(changed[0])) - before
        changes += 1
    history.retract(history.played)
    both = zip(*selections, proposal.selection, strict=True)
    selection = Selection(*(torch.cat(parts, 1) for parts in both))
    return Solution(Proposal(selection, proposal.outcomes), repetitions, changes, decisions)


WORK = 1 << 18
"""The most numbers in a work array of a block, so that it stays in the processor's cache."""

ELSEWHERE = 1 << 22
"""The same on other devices, where smaller arrays are no faster."""

WINDOW = 1 << 18
"""Where a round compares more numbers of its rank window than this, guessing costs more than it
saves."""

LEAST = 24
"""Blocks do not pay where `WORK` allows fewer rounds than this times the rounds that need no guess.
"""

PATIENCE = 256
"""The most decisions without a guess before the next attempt at the smallest block."""


class BlockSize:
    """Chooses how many rounds to decide as one fixed point: call `next`, then `learn`.

    The size halves after a block in which the repetitions that changed a pick were at least a
    quarter as many as the decisions that it takes without a guess. Else it doubles, if at most two
    of them did. Where blocks would hold no more than the rounds that need no guess, a block of
    twice these is tried once more after a number of decisions that doubles with each failure. The
    choice depends on the device, the sizes of tensors and these counts, never on a clock.

    Args:
        policy: a bound policy.
        places: K.
    """

    def __init__(self, policy: Policy, places: int) -> None:
        problem = policy.problem
        self._policy, self._size, self._wait, self._left = policy, 8, 1, 0
        self._places, self._features = problem.replicas * places, problem.features
        self._work = WORK if problem.device.type == "cpu" else ELSEWHERE

    def next(self, played: int, alone: int = 1) -> int:
        """How many rounds to decide after `played`; the next `alone` of them need no guess."""
        if not self._policy.can_suppose:
            return alone
        places, features, work = self._places, self._features, self._work
        most = min(GRID, math.isqrt(work // places), work // (places * features))
        if "contexts" in self._policy.needs:
            window = played - self._policy.split.start(played + 1)
            if window * places * features > WINDOW:
                most = 1
        if most < LEAST * alone:
            return alone
        if self._size <= alone and self._left:
            self._left -= 1
            return alone
        wanted = min(max(self._size, 2 * alone), most)
        return 1 << wanted.bit_length() - 1  # so that blocks fill the grid

    def learn(self, size: int, changes: int, alone: int = 1) -> None:
        """Adapts the size to what a block took.

        Args:
            size: the rounds of the block.
            changes: how many repetitions changed a pick.
            alone: how many of its first rounds needed no guess.
        """
        if 4 * changes * alone >= size:
            self._size = max(size // 2, 1)
            if self._size <= alone:
                self._left, self._wait = self._wait, min(2 * self._wait, PATIENCE)
        else:
            self._wait = 1
            if changes <= 2:
                self._size = min(max(self._size, 2 * size), GRID)

    def state(self) -> dict[str, int]:
        """Plain numbers to continue from."""
        return {"size": self._size, "wait": self._wait, "left": self._left}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continues from what `state` gave."""
        self._size, self._wait, self._left = state["size"], state["wait"], state["left"]

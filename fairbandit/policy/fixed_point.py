"""Sequential play in parallel: the picks of a block of rounds as a fixed point.

A policy that reads the reward of the previous round cannot decide two rounds at once. In a
simulation, however, the rewards of all candidates are drawn. The picks of a block can therefore be
guessed: train the exact models of its rounds on the guess, decide again with these models, and
repeat until the picks no longer change. This Jacobi iteration is exact: if the first i picks equal
sequential play, the decision of round i + 1 reads only correct picks, and is correct in the next
repetition. By induction the fixed point exists, is unique, and equals sequential play. Random draws
belong to rounds, so that all repetitions use the same draws.
"""

from __future__ import annotations

import math

import torch

from fairbandit.environments.base import Pools
from fairbandit.history import History, Outcomes, Problem
from fairbandit.history.outcomes import gather_picks
from fairbandit.policy.policy import Policy
from fairbandit.selectors import Selection
from fairbandit.streams import CHUNK_ROUNDS


def outcomes_of(first: int, pools: Pools, selection: Selection) -> Outcomes:
    """The outcomes of picks in rounds first, first + 1, …, from pools that hold all rewards.

    The outcome of an empty slot has group −1, and 0 as context and reward.
    """
    places = selection.places
    n, m = places.shape[1:]
    rounds = torch.arange(first, first + n, device=places.device).repeat_interleave(m)
    parts = (pools.contexts, 0), (pools.groups, -1), (pools.rewards, 0)
    picked = [gather_picks(part, places, empty).flatten(1, 2) for part, empty in parts]
    return Outcomes(rounds, *picked)


def fixed_point(
    policy: Policy, history: History, pools: Pools, n_ready: int, picks: int = 1
) -> tuple[Selection, int, int]:
    """Decides N rounds at once, although later rounds depend on outcomes of earlier rounds.

    The function decides without outcomes of the block, then repeats the decisions with the outcomes
    of the picks until no pick changes, N times at most. The first `n_ready` rounds, at least 1,
    depend on no outcome of the block; `pools` holds the rewards of all candidates.

    Returns:
        The same picks as round by round, the number of repetitions that changed a pick, and the
        number of rounds decided, summed over all repetitions.
    """
    block = history.block
    first, n = block.first, block.groups.shape[1]
    selection = policy.propose(history, picks)
    # The first `confirmed` picks equal sequential play, and are not decided again.
    confirmed, changes, decisions = n_ready, 0, n
    while confirmed < n:
        outcomes, rest = outcomes_of(first, pools, selection), slice(confirmed, n)
        picked = outcomes.groups.view(selection.actions.shape)
        guessed = history.with_guess(outcomes, picked)._replace(open=block.after(confirmed))
        again = policy.propose(guessed, picks)
        decisions += n - confirmed
        differs = again.places != selection.places[:, rest]
        changed = differs.transpose(0, 1).flatten(1).any(1).nonzero()
        pairs = zip(selection, again, strict=True)
        selection = Selection(*(torch.cat([old[:, :confirmed], new], 1) for old, new in pairs))
        if not len(changed):
            break
        # A round that reads only confirmed picks is correct, even if its own pick changed.
        last = first - 1 + confirmed + int(changed[0])
        ready = policy.n_ready(history._replace(rounds=last), first - 1 + n)
        confirmed = last + ready - (first - 1)
        changes += 1
    return selection, changes, decisions


WORK = 1 << 18
"""The most numbers in a work array of a block, so that it stays in the processor's cache."""

LEAST = 24
"""Blocks do not pay if `WORK` allows fewer rounds than `LEAST` times the rounds without a guess."""

PATIENCE = 256  # the most proposals without a guess before the next attempt at the smallest block


class BlockSize:
    """Chooses how many rounds to decide as one fixed point: call `next`, then `learn`.

    Without guesses, a block of `size` rounds takes size/n_ready proposals. The size halves if at
    least a quarter of this number of repetitions changed a pick, and doubles if at most two did. If
    the size falls to `n_ready` or less, a block of 2·n_ready rounds is tried again after a number
    of proposals that doubles with each failure. The choice depends only on the sizes of tensors and
    on these counts, never on a clock. `places` is K.
    """

    def __init__(self, policy: Policy, problem: Problem, places: int) -> None:
        self._size, self._wait, self._left = 8, 1, 0
        candidates, d = problem.replicas * places, problem.features
        most = min(CHUNK_ROUNDS, math.isqrt(WORK // candidates), WORK // (candidates * d))
        # under `refresh`, rounds that share a model need no guess, and a guess is seldom right
        self._most = 0 if policy.refresh is not None else most

    def next(self, n_ready: int) -> int:
        """The number of rounds to decide, the first `n_ready` without a guess."""
        if self._most < LEAST * n_ready:
            return n_ready
        if self._size <= n_ready and self._left:
            self._left -= 1
            return n_ready
        size = min(max(self._size, 2 * n_ready), self._most)
        return 1 << size.bit_length() - 1  # powers of 2 fill a chunk

    def learn(self, size: int, changes: int, n_ready: int) -> None:
        """Adapts the size after a block, the first `n_ready` rounds of which needed no guess."""
        if 4 * changes * n_ready >= size:
            self._size = max(size // 2, 1)
            if self._size <= n_ready:
                self._left, self._wait = self._wait, min(2 * self._wait, PATIENCE)
        else:
            self._wait = 1
            if changes <= 2:
                self._size = min(max(self._size, 2 * size), CHUNK_ROUNDS)

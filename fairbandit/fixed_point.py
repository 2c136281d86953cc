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
from typing import NamedTuple

import torch

from fairbandit.environments.base import Pools
from fairbandit.maths.picks import gather_picks
from fairbandit.part import Problem
from fairbandit.past import Knowledge, Outcomes
from fairbandit.policy import Policy
from fairbandit.selectors import Selection
from fairbandit.streams import CHUNK_ROUNDS


class Solution(NamedTuple):
    """The fixed point of a block, and what it took.

    Attributes:
        selection: the picks of the block's rounds.
        changes: how many repetitions changed a pick.
        decisions: how many rounds were decided in all repetitions together.
    """

    selection: Selection
    changes: int
    decisions: int


def outcomes_of(first: int, pools: Pools, selection: Selection) -> Outcomes:
    """The outcomes of picks in rounds first, first + 1, …, from pools that hold all rewards.

    An empty slot has an outcome of no group, whose context and reward are 0.
    """
    places = selection.places
    n, m = places.shape[1:]
    rounds = torch.arange(first, first + n, device=places.device).repeat_interleave(m)
    parts = (pools.contexts, 0), (pools.groups, -1), (pools.rewards, 0)
    picked = [gather_picks(part, places, empty).flatten(1, 2) for part, empty in parts]
    return Outcomes(rounds, *picked)


def fixed_point(
    policy: Policy, known: Knowledge, first: int, pools: Pools, n_ready: int, picks: int = 1
) -> Solution:
    """Decides N rounds at once, although later ones depend on outcomes of earlier ones.

    It guesses the outcomes, decides, and repeats with the outcomes of these picks until no pick
    changes, N times at most.

    Args:
        policy: decides; it does not sum outcomes ahead.
        known: what is known before the block, and its pools.
        first: the first round of the block, from 1.
        pools: the N rounds, with the rewards of all their candidates.
        n_ready: how many leading rounds depend on no outcome of the block, at least 1.
        picks: m, how many are picked of each pool.

    Returns:
        Picks equal to those of deciding round by round.
    """
    contexts, groups = pools.contexts, pools.groups
    n = groups.shape[1]
    selection = policy.propose(known, first, (contexts, groups), picks)
    # The first `confirmed` picks are those of sequential play, and are not decided again.
    confirmed, changes, decisions = n_ready, 0, n
    while confirmed < n:
        outcomes = outcomes_of(first, pools, selection)
        picked = outcomes.groups.view(selection.actions.shape)
        past = known.past.supposing(outcomes).with_picks(picked)
        supposed, rest = known._replace(past=past), slice(confirmed, n)
        pools_left = contexts[:, rest], groups[:, rest]
        again = policy.propose(supposed, first + confirmed, pools_left, picks)
        decisions += n - confirmed
        differs = again.places != selection.places[:, rest]
        changed = differs.transpose(0, 1).flatten(1).any(1).nonzero()
        both = zip(selection, again, strict=True)
        selection = Selection(*(torch.cat([old[:, :confirmed], new], 1) for old, new in both))
        if not len(changed):
            break
        # A round that reads only confirmed picks is decided rightly, even if its own pick changed.
        last = first - 1 + confirmed + int(changed[0])
        confirmed = last + policy.n_ready(last, first - 1 + n) - (first - 1)
        changes += 1
    return Solution(selection, changes, decisions)


WORK = 1 << 18
"""The most numbers in a work array of a block, so that it stays in the processor's cache."""

WINDOW = 1 << 18
"""Where a round compares more numbers of its rank window than this, guessing costs more than it
saves."""

LEAST = 24
"""Blocks do not pay where `WORK` allows fewer rounds than this times the rounds that need no guess.
"""

PATIENCE = 256
"""The most proposals without a guess before the next attempt at the smallest block."""


class BlockSize:
    """Chooses how many rounds to decide as one fixed point: call `next`, then `learn`.

    Without a guess, a block of `size` rounds takes size/n_ready proposals. The size halves after a
    block in which at least a quarter as many repetitions changed a pick, and doubles if at most two
    did. Where blocks would hold no more than the rounds that need no guess, a block of twice these
    is tried once more after a number of proposals that doubles with each failure. The choice
    depends on the sizes of tensors and these counts, never on a clock.

    Args:
        policy: decides.
        problem: what is played.
        places: K.
    """

    def __init__(self, policy: Policy, problem: Problem, places: int) -> None:
        self._policy, self._size, self._wait, self._left = policy, 8, 1, 0
        self._candidates, self._features = problem.replicas * places, problem.features

    def next(self, played: int, n_ready: int = 1) -> int:
        """How many rounds to decide after `played`; the next `n_ready` of them need no guess."""
        if self._policy.sums_ahead or "refresh" in self._policy.estimator.needs:
            return n_ready  # models fitted to a guess would be thrown away
        candidates, features = self._candidates, self._features
        most = min(CHUNK_ROUNDS, math.isqrt(WORK // candidates), WORK // (candidates * features))
        if "contexts" in self._policy.needs:
            window = played - self._policy.schedule.rank_start(played + 1)
            if window * candidates * features > WINDOW:
                most = 1
        if most < LEAST * n_ready:
            return n_ready
        if self._size <= n_ready and self._left:
            self._left -= 1
            return n_ready
        wanted = min(max(self._size, 2 * n_ready), most)
        return 1 << wanted.bit_length() - 1  # so that blocks fill a chunk

    def learn(self, size: int, changes: int, n_ready: int = 1) -> None:
        """Adapts the size to what a block took.

        Args:
            size: the rounds of the block.
            changes: how many repetitions changed a pick.
            n_ready: how many of its first rounds needed no guess.
        """
        if 4 * changes * n_ready >= size:
            self._size = max(size // 2, 1)
            if self._size <= n_ready:
                self._left, self._wait = self._wait, min(2 * self._wait, PATIENCE)
        else:
            self._wait = 1
            if changes <= 2:
                self._size = min(max(self._size, 2 * size), CHUNK_ROUNDS)

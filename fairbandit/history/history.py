"""All that a policy knows before a decision, as a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairbandit.files.formats import fitted
from fairbandit.history.contexts import Contexts, Ints
from fairbandit.history.outcomes import Outcomes
from fairbandit.history.problem import Problem

NEVER = 2**53  # a number larger than every round

State = Any
"""The state of an estimator: tensors, numbers and tuples of them, such as a `NamedTuple`. It is
never changed in place."""


class Block(NamedTuple):
    """N consecutive rounds with their pools.

    Attributes:
        first: the first of the rounds, from 1.
        contexts, groups: the pools, (B, N, K, d) and (B, N, K) int64, −1 for an empty place.
        sizes: the number of candidates of each pool, (B, N).
    """

    first: int
    contexts: Tensor
    groups: Tensor
    sizes: Ints

    @classmethod
    def of(cls, first: int, contexts: Tensor, groups: Tensor) -> Block:
        """The block of pools whose first round is given."""
        return cls(first, contexts, groups, (groups.numpy(force=True) >= 0).sum(2))

    def after(self, n: int) -> Block:
        """The block without its first n rounds."""
        first, contexts, groups, sizes = self
        return Block(first + n, contexts[:, n:], groups[:, n:], sizes[:, n:])


class History(NamedTuple):
    """All that a policy knows; each step of a policy returns a new value.

    Attributes:
        problem: the problem that is played.
        rounds: the number of rounds, including the rounds of the open block.
        candidates: the number of candidates in these rounds, (B,).
        first_reward: the first round whose reward is known; `NEVER` before any reward is known.
        last_reward: the last round whose reward is known; 0 before any reward is known.
        contexts: the contexts of these rounds by group; None if no part reads them.
        waiting: the outcomes that the state does not include, or all if a part reads rewards.
        picks: the number of picks of each group up to the end of each round, from round 0 on, as
            rows (B, ·, G); None if no part reads them.
        state: the estimator's state, which includes the known outcomes of rounds 1 … n_state.
        n_state: the number of first rounds that `state` includes.
        open: the rounds to decide; None between two blocks.
        guess: outcomes that are guessed for rounds of the open block; None without a guess.
        rewards_pending: whether no reward comes between the rounds of the open block, although they
            are played one after another.
    """

    problem: Problem
    rounds: int
    candidates: Ints
    first_reward: int
    last_reward: int
    contexts: Contexts | None
    waiting: Rows
    picks: Rows | None
    state: State = ()
    n_state: int = 0
    open: Block | None = None
    guess: Outcomes | None = None
    rewards_pending: bool = False

    @classmethod
    def empty(
        cls,
        problem: Problem,
        state: State = (),
        *,
        contexts: bool = True,
        picks: bool = False,
        max_contexts: int | None = None,
    ) -> History:
        """The history before the first round, with the estimator's state before any outcome."""
        b, g = problem.replicas, problem.groups
        rounds, none, integers, rewards = problem.no_outcomes
        return cls(
            problem=problem,
            rounds=0,
            candidates=np.zeros(b, np.int64),
            first_reward=NEVER,
            last_reward=0,
            contexts=Contexts.empty(none, g, max_contexts) if contexts else None,
            waiting=Rows([rounds[None], none, integers, rewards]),
            picks=Rows([integers.new_zeros(b, 1, g)]) if picks else None,
            state=state,
        )

    @property
    def block(self) -> Block:
        """The open block."""
        assert self.open is not None, "no block is open"
        return self.open

    @property
    def outcomes(self) -> Outcomes:
        """The waiting outcomes followed by the guess."""
        rounds, *picks = self.waiting[self.waiting.start, self.waiting.stop]
        waiting = Outcomes(rounds[0], *picks)
        return waiting if self.guess is None else waiting.and_then(self.guess)

    def outcomes_of(self, start: int, stop: int) -> Outcomes:
        """The waiting and the guessed outcomes of rounds start + 1 … stop."""
        if min(stop, self.last_reward) <= start:
            return self.problem.no_outcomes
        outcomes = self.outcomes
        return outcomes.rows(*outcomes.counts([start, stop]))

    def pick_counts(self, rounds: Ints) -> Tensor:
        """The number of picks of each group in rounds 1 … t, for t of (N,): (B, N, G) int64."""
        assert self.picks is not None
        low, high = int(rounds.min()), int(rounds.max())
        (counts,) = self.picks[low, high + 1]
        return counts.index_select(1, torch.from_numpy(rounds - low).to(counts.device))

    def with_pools(self, contexts: Tensor, groups: Tensor) -> History:
        """The history with the pools of the next N rounds as its open block."""
        block = Block.of(self.rounds + 1, contexts, groups)
        return self._replace(
            rounds=self.rounds + groups.shape[1],
            candidates=self.candidates + block.sizes.sum(1),
            contexts=None if self.contexts is None else self.contexts.append(contexts, groups),
            open=block,
        )

    def with_picks(self, groups: Tensor) -> History:
        """The history with the groups of further picks, (B, N, m), if any part reads them."""
        if self.picks is None:
            return self
        (last,) = self.picks[self.picks.stop - 1, self.picks.stop]
        every = torch.arange(last.shape[2], device=groups.device)
        counts = (groups[..., None] == every).sum(2).cumsum(1).add_(last)
        return self._replace(picks=self.picks.append(counts))

    def with_other_pick(self, group: int, instead: int | None) -> History:
        """The history, for later rounds, after a pick came to an earlier round of replica 0.

        `group` is the group of the pick, and `instead` the group of the replaced pick, if any.
        """
        if self.picks is None:
            return self
        counts = self.picks[self.picks.stop - 1, self.picks.stop][0].clone()
        counts[0, 0, group] += 1
        if instead is not None:
            counts[0, 0, instead] -= 1
        return self._replace(picks=Rows([counts], self.picks.stop - 1))

    def with_outcomes(self, outcomes: Outcomes, skipped: int = 0) -> History:
        """The history with outcomes in order of round; the state includes the first `skipped`."""
        rows, rounds = self.waiting, outcomes.rounds.numpy(force=True)
        if not (n := len(rounds)):
            return self
        if skipped < n:
            new = outcomes.rows(skipped, n) if skipped else outcomes
            if rounds[skipped] < self.last_reward:
                came, *picks = self.outcomes.and_then(new)
                order = came.argsort(stable=True)
                rows = Rows([came[None, order], *(part[:, order] for part in picks)], rows.start)
            else:
                rows = rows.append(new.rounds[None], *new[1:])
        return self._replace(
            first_reward=min(self.first_reward, int(rounds[0])),
            last_reward=max(self.last_reward, int(rounds[-1])),
            waiting=rows,
        )

    def with_guess(self, outcomes: Outcomes, groups: Tensor) -> History:
        """The history with guessed outcomes of the first open rounds, of groups (B, N, m)."""
        return self.with_picks(groups).with_outcomes(outcomes, outcomes.n)._replace(guess=outcomes)

    def forget(self, *, outcomes: int = 0, contexts: int = 0, picks: int = 0) -> History:
        """The history without entries that no later round reads.

        These are a number of first `outcomes`, the `contexts` up to a round, and the counts of
        `picks` before a round.
        """
        return self._replace(
            waiting=self.waiting.forget(self.waiting.start + outcomes),
            contexts=None if self.contexts is None else self.contexts.forget(contexts),
            picks=None if self.picks is None else self.picks.forget(picks),
        )

    def grow(self, problem: Problem, state: State) -> History:
        """The history in a problem with more groups, with the estimator's state in it."""
        contexts, picks = self.contexts, self.picks
        if picks is not None:
            (counts,) = picks[picks.start, picks.stop]
            more = problem.groups - counts.shape[2]
            picks = Rows([torch.nn.functional.pad(counts, (0, more))], picks.start)
        contexts = None if contexts is None else contexts.grow(problem.groups)
        return self._replace(problem=problem, state=state, contexts=contexts, picks=picks)

    def saved(self) -> dict[str, Any]:
        """All that is kept between two blocks, as plain tensors and numbers."""
        return {
            "rounds": self.rounds,
            "candidates": self.candidates.tolist(),
            "first_reward": self.first_reward,
            "last_reward": self.last_reward,
            "contexts": None if self.contexts is None else self.contexts.state(),
            "waiting": _saved_rows(self.waiting),
            "picks": None if self.picks is None else _saved_rows(self.picks),
            "state": _plain(self.state),
            "n_state": self.n_state,
        }

    def restored(self, saved: Mapping[str, Any]) -> History:
        """The history that was saved, of the policy and the problem of this empty history.

        Raises ValueError if the types or the sizes do not fit.
        """
        read = fitted(saved, {**self.forget(picks=1).saved(), "state": self.state})
        contexts = self.contexts and self.contexts.restored(read["contexts"])
        read |= {"candidates": np.array(read["candidates"]), "contexts": contexts}
        read |= {key: read[key] and Rows(*read[key]) for key in ("waiting", "picks")}
        return self._replace(**read)


def _saved_rows(rows: Rows) -> tuple[list[Tensor], int]:
    return [part.clone() for part in rows[rows.start, rows.stop]], rows.start


def _plain(state: Any) -> Any:
    return tuple(map(_plain, state)) if isinstance(state, tuple) else state


class Rows:
    """Rows along dimension 1 of several tensors, numbered from 0; first rows may be forgotten.

    `append` returns longer rows, which share memory with the shorter rows. Only the longest rows
    append in place; all others copy the rows that they keep. An interrupted append changes none.

    >>> import torch
    >>> short = Rows([torch.zeros(1, 2)])
    >>> long = short.append(torch.ones(1, 1))
    >>> short.stop, long.stop, long[1, 3]
    (2, 3, [tensor([[0., 1.]])])
    """

    def __init__(self, parts: Sequence[Tensor], first: int = 0) -> None:
        self.start, self.stop = first, first + parts[0].shape[1]
        self._parts, self._first = parts, first
        # the number after the last row in shared memory, or −1 during a write
        self._filled = [self.stop]

    def append(self, *parts: Tensor) -> Rows:
        """These rows followed by n further rows, (·, n, …) each."""
        memory, first, filled = self._parts, self._first, self._filled
        stop = self.stop + parts[0].shape[1]
        if filled[0] != self.stop or stop - first > memory[0].shape[1]:
            room, kept = max(64, 2 * (stop - self.start)), self[self.start, self.stop]
            memory = [part.new_empty(len(part), room, *part.shape[2:]) for part in memory]
            for new, old in zip(memory, kept, strict=True):
                new[:, : old.shape[1]] = old
            first, filled = self.start, [self.stop]
        filled[0] = -1
        for memory_part, new in zip(memory, parts, strict=True):
            memory_part[:, self.stop - first : stop - first] = new
        filled[0] = stop
        rows = Rows(memory, first)
        rows.start, rows.stop, rows._filled = self.start, stop, filled
        return rows

    def forget(self, start: int) -> Rows:
        """The rows from number `start` on; a later append frees the memory of the others."""
        if start <= self.start:
            return self
        rows = copy(self)
        rows.start = min(start, self.stop)
        return rows

    def __getitem__(self, limits: tuple[int, int]) -> list[Tensor]:
        """Rows start … stop − 1 of every tensor, as views; all of them must be kept."""
        start, stop = limits
        if not self.start <= start <= stop <= self.stop:
            raise IndexError(
                f"rows {start} to {stop - 1} are not kept; kept are {self.start} to {self.stop - 1}"
            )
        return [part.narrow(1, start - self._first, stop - start) for part in self._parts]

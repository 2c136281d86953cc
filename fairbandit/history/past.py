"""The pools, picks and rewards of the rounds so far, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairbandit.files.formats import fitted
from fairbandit.history.contexts import Contexts, Ints
from fairbandit.history.outcomes import Outcomes
from fairbandit.history.problem import Problem
from fairbandit.history.rows import Rows

NEVER = 2**53
"""A number larger than every round."""


class Past(NamedTuple):
    """The pools, picks and rewards so far, as a value: no method changes it.

    Attributes:
        rounds: the number of rounds, including rounds whose picks are not yet known.
        candidates: the number of candidates in these rounds, (B,).
        first_reward: the first round whose reward is known; `NEVER` before any reward is known.
        last_reward: the last round whose reward is known; 0 before any reward is known.
        contexts: the past contexts by group; None if no part needs them.
        nothing: an empty set of outcomes.
        rows: the outcomes that are kept.
        picks: the number of picks of each group up to the end of each round, from round 0 on, as
            rows (B, ·, G); None if no part reads them.
        guess: outcomes that are guessed for rounds of the open block; None without a guess.
    """

    rounds: int
    candidates: Ints
    first_reward: int
    last_reward: int
    contexts: Contexts | None
    nothing: Outcomes
    rows: Rows
    picks: Rows | None
    guess: Outcomes | None = None

    @classmethod
    def empty(
        cls,
        problem: Problem,
        *,
        contexts: bool = True,
        picks: bool = False,
        max_contexts: int | None = None,
    ) -> Past:
        """The past before the first round.

        Args:
            problem: determines sizes, the device and the dtype.
            contexts: whether to keep contexts.
            picks: whether to count picks by group.
            max_contexts: the number of last contexts of each group that count; None counts all
                contexts.
        """
        b, d, g, device = problem.replicas, problem.features, problem.groups, problem.device
        none = problem.zeros(b, 0, d)
        whole = torch.zeros(b, 0, dtype=torch.int64, device=device)
        return cls(
            rounds=0,
            candidates=np.zeros(b, np.int64),
            first_reward=NEVER,
            last_reward=0,
            contexts=Contexts.empty(none, g, max_contexts) if contexts else None,
            nothing=Outcomes(whole[0], none, whole, problem.zeros(b, 0)),
            rows=Rows([whole[:1], none, whole, problem.zeros(b, 0)]),
            picks=Rows([whole.new_zeros(b, 1, g)]) if picks else None,
        )

    @property
    def outcomes(self) -> Outcomes:
        """The kept outcomes followed by the guess."""
        rounds, *others = self.rows[self.rows.start, self.rows.stop]
        kept = Outcomes(rounds[0], *others)
        return kept if self.guess is None else kept.and_then(self.guess)

    def outcomes_of(self, start: int, stop: int) -> Outcomes:
        """The kept and the guessed outcomes of rounds start + 1 … stop."""
        if min(stop, self.last_reward) <= start:
            return self.nothing
        outcomes = self.outcomes
        return outcomes.rows(*outcomes.counts([start, stop]))

    def pick_counts(self, rounds: Tensor) -> Tensor:
        """The number of picks of each group in rounds 1 … t, for t of (N,): (B, N, G) int64."""
        assert self.picks is not None
        low, high = (int(end) for end in rounds.aminmax())
        return self.picks[low, high + 1][0].index_select(1, rounds - low)

    def with_pools(self, contexts: Tensor, groups: Tensor) -> Past:
        """The past with the pools of the next N rounds, (B, N, K, d) and (B, N, K)."""
        present = groups.flatten(1).numpy(force=True) >= 0
        return self._replace(
            rounds=self.rounds + groups.shape[1],
            candidates=self.candidates + present.sum(1),
            contexts=None if self.contexts is None else self.contexts.append(contexts, groups),
        )

    def with_picks(self, groups: Tensor) -> Past:
        """The past with the picks of the next N rounds, if any part reads them.

        Args:
            groups: the groups of the picks, (B, N, m) int64, −1 in empty slots.
        """
        if self.picks is None:
            return self
        (last,) = self.picks[self.picks.stop - 1, self.picks.stop]
        every = torch.arange(last.shape[2], device=groups.device)
        counts = (groups[..., None] == every).sum(2).cumsum(1).add_(last)
        return self._replace(picks=self.picks.append(counts))

    def with_outcomes(self, outcomes: Outcomes, skipped: int = 0) -> Past:
        """The past with outcomes of any rounds.

        Args:
            outcomes: in order of round.
            skipped: the number of first outcomes that are not kept as rows; they are still known.
        """
        if not outcomes.n:
            return self
        first, last, rows = int(outcomes.rounds[0]), int(outcomes.rounds[-1]), self.rows
        kept = outcomes.rows(skipped, outcomes.n)
        if kept.n and int(kept.rounds[0]) < self.last_reward:
            both = self.outcomes.and_then(kept)
            order = both.rounds.argsort(stable=True)
            rounds, *others = both
            sorted_ = [rounds[None, order], *(part[:, order] for part in others)]
            rows = Rows(sorted_, rows.start)
        elif kept.n:
            rows = rows.append(kept.rounds[None], *kept[1:])
        first, last = min(self.first_reward, first), max(self.last_reward, last)
        return self._replace(first_reward=first, last_reward=last, rows=rows)

    def with_guess(self, outcomes: Outcomes) -> Past:
        """The past with guessed outcomes of rounds that are not played yet; picks do not change."""
        return self.with_outcomes(outcomes, outcomes.n)._replace(guess=outcomes)

    def forget(self, *, outcomes: int = 0, contexts: int = 0, picks: int = 0) -> Past:
        """The past without entries that no later round reads.

        Args:
            outcomes: the number of first rows of outcomes to forget.
            contexts: the last round whose pool to forget.
            picks: the first round whose counts of picks to keep.
        """
        return self._replace(
            rows=self.rows.forget(self.rows.start + outcomes),
            contexts=None if self.contexts is None else self.contexts.forget(contexts),
            picks=None if self.picks is None else self.picks.forget(picks),
        )

    def grow(self, groups: int) -> Past:
        """The past with room for new groups; `groups` is the new G."""
        contexts, picks = self.contexts, self.picks
        if picks is not None:
            (counts,) = picks[picks.start, picks.stop]
            more = groups - counts.shape[2]
            picks = Rows([torch.nn.functional.pad(counts, (0, more))], picks.start)
        contexts = None if contexts is None else contexts.grow(groups)
        return self._replace(contexts=contexts, picks=picks)

    def state(self) -> dict[str, Any]:
        """Everything that is kept, as plain tensors and numbers."""
        return {
            "rounds": self.rounds,
            "candidates": self.candidates.tolist(),
            "first_reward": self.first_reward,
            "last_reward": self.last_reward,
            "contexts": None if self.contexts is None else self.contexts.state(),
            "rows": _state(self.rows),
            "picks": None if self.picks is None else _state(self.picks),
        }

    def restored(self, state: Mapping[str, Any], groups: int) -> Past:
        """The past with a given state and G groups.

        This past must have the same problem and the same parts.

        Raises:
            ValueError: the state does not fit the problem or the parts.
        """
        read = fitted(state, self.forget(picks=1).state())
        (rounds, *others), _ = read["rows"]
        self.nothing.restored([rounds[0], *others], read["rounds"], groups)
        contexts = self.contexts and self.contexts.restored(read["contexts"])
        if contexts and contexts.rounds != read["rounds"]:
            raise ValueError("contexts end with a different round")
        read |= {"candidates": np.array(read["candidates"]), "contexts": contexts}
        read |= {key: read[key] and Rows(*read[key]) for key in ("rows", "picks")}
        return self._replace(**read)


def _state(rows: Rows) -> tuple[list[Tensor], int]:
    return [part.clone() for part in rows[rows.start, rows.stop]], rows.start

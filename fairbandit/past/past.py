"""All that is known of the rounds so far, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairbandit.counting import Contexts
from fairbandit.counting.contexts import Ints
from fairbandit.formats import fitted
from fairbandit.part import Problem
from fairbandit.past.outcomes import Outcomes
from fairbandit.past.rows import Rows

NEVER = 2**53
"""Later than every round."""


class Past(NamedTuple):
    """The pools, picks and rewards so far, as a value: no method changes it.

    Attributes:
        rounds: how many rounds there were, those whose picks are not yet known included.
        candidates: how many candidates these had, (B,).
        first_reward: the first round whose reward is known, `NEVER` while there is none.
        last_reward: the last such round, 0 while there is none.
        contexts: the past contexts by group; None if no part needs them.
        nothing: no outcomes.
        rows: the outcomes that are kept.
        picks: how often each group was picked by the end of each round, one row of (B, ·, G) a
            round from 0 on; None if no part reads them.
        supposed: outcomes that are only supposed.
    """

    rounds: int
    candidates: Ints
    first_reward: int
    last_reward: int
    contexts: Contexts | None
    nothing: Outcomes
    rows: Rows
    picks: Rows | None
    supposed: Outcomes | None = None

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
            problem: sizes, device and dtype.
            contexts: whether to keep contexts.
            picks: whether to count picks by group.
            max_contexts: how many of its last contexts count of each group; None counts all.
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
        """The outcomes that are kept, and those that are supposed."""
        rounds, *others = self.rows[self.rows.start, self.rows.stop]
        kept = Outcomes(rounds[0], *others)
        return kept if self.supposed is None else kept.and_then(self.supposed)

    def outcomes_of(self, start: int, stop: int) -> Outcomes:
        """The outcomes that are kept or supposed of rounds start + 1 … stop."""
        if stop <= start:
            return self.nothing
        outcomes = self.outcomes
        return outcomes.rows(*outcomes.counts([start, stop]))

    def pick_counts(self, rounds: Tensor) -> Tensor:
        """How often each group was picked in rounds 1 … t, for each t of (N,): (B, N, G) int64."""
        assert self.picks is not None
        low, high = (int(end) for end in rounds.aminmax())
        return self.picks[low, high + 1][0].index_select(1, rounds - low)

    def with_pools(self, contexts: Tensor, groups: Tensor) -> Past:
        """The past with the pools of the next N rounds, (B, N, K, d) and (B, N, K)."""
        present = groups.flatten(1).numpy(force=True) >= 0
        return self._replace(
            rounds=self.rounds + groups.shape[1],
            candidates=self.candidates + (present[0].size if present.all() else present.sum(1)),
            contexts=None if self.contexts is None else self.contexts.append(contexts, groups),
        )

    def with_picks(self, groups: Tensor) -> Past:
        """The past with the picks of the next N rounds, counted if need be.

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
            skipped: how many first ones are not kept as rows; they count as known all the same.
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

    def supposing(self, outcomes: Outcomes) -> Past:
        """The past if rounds that were not played yet had some outcomes; picks are not counted."""
        return self.with_outcomes(outcomes, outcomes.n)._replace(supposed=outcomes)

    def forget(self, *, outcomes: int = 0, contexts: int = 0, picks: int = 0) -> Past:
        """The past without what is not asked for again.

        Args:
            outcomes: so many first rows of outcomes may go.
            contexts: the last round whose pool may go.
            picks: the counts of picks by the end of earlier rounds may go.
        """
        return self._replace(
            rows=self.rows.forget(self.rows.start + outcomes),
            contexts=None if self.contexts is None else self.contexts.forget(contexts),
            picks=None if self.picks is None else self.picks.forget(picks),
        )

    def grow(self, groups: int) -> Past:
        """The past with room for new groups, G of them in all."""
        contexts, picks = self.contexts, self.picks
        if picks is not None:
            (counts,) = picks[picks.start, picks.stop]
            more = groups - counts.shape[2]
            picks = Rows([torch.nn.functional.pad(counts, (0, more))], picks.start)
        contexts = None if contexts is None else contexts.grow(groups)
        return self._replace(contexts=contexts, picks=picks)

    def state(self) -> dict[str, Any]:
        """All that is kept, as plain tensors and numbers."""
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
        """The past of G groups that gave a state; this one is of the same problem and parts.

        Raises:
            ValueError: no past of the problem and the parts has such a state.
        """
        read = fitted(state, self.forget(picks=1).state())
        (rounds, *others), _ = read["rows"]
        self.nothing.restored([rounds[0], *others], read["rounds"], groups)
        contexts = self.contexts and self.contexts.restored(read["contexts"])
        if contexts and contexts.rounds != read["rounds"]:
            raise ValueError("its contexts end with another round")
        read |= {"candidates": np.array(read["candidates"]), "contexts": contexts}
        read |= {key: read[key] and Rows(*read[key]) for key in ("rows", "picks")}
        return self._replace(**read)


def _state(rows: Rows) -> tuple[list[Tensor], int]:
    return [part.clone() for part in rows[rows.start, rows.stop]], rows.start

"""The past rounds that a policy's parts may read, and no others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.maths.buffers import Rows
from fairbandit.parts.base import NEEDS, Problem
from fairbandit.parts.past import context_store


class Outcomes(NamedTuple):
    """What was picked and what it gave.

    A round whose reward is not known (yet), as happens online, has context 0, group −1 and reward
    0, and so adds nothing to any sum.

    Attributes:
        contexts: the picks' features, (B, n, d).
        groups: the picks' groups, (B, n) int64.
        rewards: their noisy rewards, (B, n).
    """

    contexts: Tensor
    groups: Tensor
    rewards: Tensor


NEVER = torch.iinfo(torch.int64).max
"""Later than every round."""

_ROWS = ("picks", "groups", "rewards", "picks_by")
_NUMBERS = ("earliest", "committed", "played", "pools", "places")


class History:
    """Past contexts by group, past picks with their rewards, and counts of past picks.

    Args:
        problem: sizes, device and dtype.
        needs: what to keep besides the outcomes that train the estimator; a subset of `NEEDS`.
        outcomes: whether outcomes are kept at all; false where the estimator takes them in at
            once.
        picks: whether picks are counted by group.
        memory: how many of its last contexts count of each group; None counts all.

    Attributes:
        contexts: the past contexts by group, if they are needed; else it stays empty.
        earliest: the first round whose reward is known, `NEVER` while there is none.
        known: models may be trained on rounds up to this one; `NEVER` while there is no limit.
        committed: the estimator has taken in the outcomes up to this round for good.
        played: the last round that was decided.
        pools, places: how many pools there were so far, and how many places in them.
    """

    def __init__(
        self,
        problem: Problem,
        needs: Collection[str],
        *,
        outcomes: bool = True,
        picks: bool = False,
        memory: int | None = None,
    ) -> None:
        unknown = set(needs) - NEEDS
        if unknown:
            raise FairbanditError(f"a part can need {sorted(NEEDS)}; got {sorted(unknown)}")
        b, d, g = problem.replicas, problem.features, problem.groups
        self.needs, self._keeps, self._counts = frozenset(needs), outcomes, picks
        # how often each group was picked by the end of each round from 0 on, (B, 1 + round, G)
        self._picked = torch.zeros(b, 1, g, dtype=torch.int64, device=problem.device)
        self._picks_by = Rows(self._picked)
        no_groups = torch.empty(b, 0, dtype=torch.int64, device=problem.device)
        self._outcomes = Rows(problem.zeros(b, 0, d)), Rows(no_groups), Rows(problem.zeros(b, 0))
        self._rows = dict(zip(_ROWS, (*self._outcomes, self._picks_by), strict=True))
        self.contexts = context_store(problem, memory)
        self._group_count = g
        self._unknown = Outcomes(
            problem.zeros(b, 1, d),
            torch.full((b, 1), -1, device=problem.device),
            problem.zeros(b, 1),
        )
        self.earliest, self.known, self.committed, self.played = NEVER, NEVER, 0, 0
        self.pools, self.places = 0, 0

    def outcomes(self, start: int, stop: int) -> Outcomes:
        """Picks and rewards of rounds start+1 … stop; of none, if outcomes are not kept.

        A round that was played and whose reward is not known has context 0, group −1 and reward 0.

        Raises:
            FairbanditError: rounds that are not kept.
        """
        if start == stop or not self._keeps:
            return Outcomes(*(part[:, :0] for part in self._unknown))
        self._fill(stop)
        return Outcomes(*(_kept(rows, start, stop) for rows in self._outcomes))

    def rewards(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """The same rounds' groups and rewards, (B, n) each: of many rounds, much less to read."""
        self._fill(stop)
        _, groups, rewards = self._outcomes
        return _kept(groups, start, stop), _kept(rewards, start, stop)

    def picks(self, rounds: Tensor) -> Tensor:
        """How often each group was picked in rounds 1 … t, for each t of (N,): (B, N, G) int64."""
        low, high = (int(end) for end in rounds.aminmax())
        return self._picks_by[low, high + 1].index_select(1, rounds - low)

    def add_rounds(self, n: int) -> None:
        """Records that the next n rounds were decided."""
        self.played += n

    def count_picks(self, groups: Tensor) -> None:
        """Counts the picks of the next N rounds, of groups (B, N)."""
        every = torch.arange(self._group_count, device=groups.device)
        picked = (groups[..., None] == every).cumsum(1).add_(self._picked)
        self._picks_by.append(picked)
        self._picked = picked[:, -1:]

    def add_outcomes(self, first: int, outcomes: Outcomes) -> None:
        """Records the outcomes of the rounds first … first+N−1, later than any known so far."""
        self.earliest = min(self.earliest, first)
        if self._keeps:
            self._fill(first - 1)
            for rows, values in zip(self._outcomes, outcomes, strict=True):
                rows.append(values)

    def suppose(self, first: int, outcomes: Outcomes, known: int = NEVER) -> None:
        """Adds outcomes of the rounds first … first+N−1, which were not played yet.

        They replace those supposed of these and later rounds before, and stay until `retract`, as
        does the limit `known`.
        """
        self.retract(first - 1)
        self.known = known
        self.add_outcomes(first, outcomes)
        if self._counts:
            self.count_picks(outcomes.groups)

    def retract(self, last: int) -> None:
        """Takes back what was supposed of the rounds after the last one given."""
        self.known = NEVER
        if self.earliest > last:
            self.earliest = NEVER
        for rows in self._outcomes:
            rows.retract(last)
        if self._counts:
            self._picks_by.retract(last + 1)
            self._picked = self._picks_by[last, last + 1]

    def learn(self, t: int, outcome: Outcomes) -> None:
        """Records the outcome, (B, 1, …), of a round that was played before."""
        self.earliest = min(self.earliest, t)
        if t > self._outcomes[0].count:
            self.add_outcomes(t, outcome)
        elif self._keeps:
            for rows, values in zip(self._outcomes, outcome, strict=True):
                rows.write(t, values)

    def add_pools(self, contexts: Tensor, groups: Tensor, places: int | None = None) -> None:
        """Records the pools of the next N rounds; −1 is left out.

        Args:
            contexts: (B, N, K, d).
            groups: (B, N, K).
            places: of all N pools together, where K is but the largest pool's; N·K unless given.
        """
        _, n, k = groups.shape
        self.pools += n
        self.places += n * k if places is None else places
        if "contexts" in self.needs:
            self.contexts.append(contexts, groups)

    def shift(self, k: int) -> int:
        """How many more places the pools so far had than as many pools of k places."""
        return self.places - self.pools * k

    def forget(self, outcomes: int, contexts: int, picks: int) -> None:
        """Rounds up to these are not asked for again.

        Args:
            outcomes: the last round whose outcome may go, unless a part needs rewards.
            contexts: the last round whose pool may go.
            picks: the counts of picks by the end of earlier rounds may go.
        """
        if self._counts:
            self._picks_by.forget(picks)
        if "rewards" not in self.needs and self._keeps:
            self._fill(outcomes)
            for rows in self._outcomes:
                rows.forget(outcomes)
        if "contexts" in self.needs:
            self.contexts.forget(contexts)

    def grow(self, problem: Problem) -> None:
        """Makes room for new groups."""
        more = problem.groups - self._group_count
        self._group_count = problem.groups
        self.contexts.grow(problem.groups)
        self._picks_by.widen(problem.groups)
        self._picked = torch.nn.functional.pad(self._picked, (0, more))

    def state(self) -> dict[str, Any]:
        """All that is kept, as plain tensors and numbers."""
        self._fill(self.played)
        kept = {name: rows.state() for name, rows in self._rows.items()}
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        return {**kept, **numbers, "contexts": self.contexts.state(), "picked": self._picked}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continues from a state that `state` gave."""
        for name, rows in self._rows.items():
            rows.load_state(state[name])
        self.contexts.load_state(state["contexts"])
        for name in _NUMBERS:
            setattr(self, name, state[name])
        self._picked = state["picked"]

    def stores(self) -> list[object]:
        """The objects that hold the history; restoring their attributes undoes changes."""
        return [self, *self.contexts.holders(), *self._rows.values()]

    def _fill(self, n: int) -> None:
        """Adds rows without an outcome for those of the first n rounds that have none yet."""
        while self._keeps and self._outcomes[0].count < min(n, self.played):
            for rows, values in zip(self._outcomes, self._unknown, strict=True):
                rows.append(values)


def _kept(rows: Rows, start: int, stop: int) -> Tensor:
    """The rows of rounds start+1 … stop; the error says how to keep them."""
    try:
        return rows[start, stop]
    except IndexError as error:
        raise FairbanditError(
            f"past outcomes: {error}. Rounds that the estimator has taken in are forgotten, "
            'unless a part declares needs = frozenset({"rewards"})'
        ) from error

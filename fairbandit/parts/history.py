"""The past rounds that a policy's parts may read, and no others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.maths import checks
from fairbandit.maths.buffers import Rows
from fairbandit.parts.base import Problem
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

_NUMBERS = ("earliest", "taken", "pools", "places")

NEEDS = frozenset({"contexts", "rewards"})
"""What a rank may declare to need: past pools' contexts, or past picks with their rewards."""


class History:
    """Past pools by group, and past picks with their rewards.

    Args:
        problem: sizes, device and dtype.
        needs: what to keep besides the picks that teach the estimator; a subset of `NEEDS`.
        memory: how many of its last contexts are kept of each group; None keeps all in windows.

    Attributes:
        contexts: the past contexts by group, if they are needed; else it stays empty.
        earliest: the first round whose reward is known, `NEVER` while there is none.
        taken: the estimator has taken in the outcomes up to this round.
        pools, places: how many pools there were so far, and how many places in them.
    """

    def __init__(self, problem: Problem, needs: Collection[str], memory: int | None = None) -> None:
        unknown = set(needs) - NEEDS
        if unknown:
            raise FairbanditError(f"a rank can need {sorted(NEEDS)}; got {sorted(unknown)}")
        b, d, g = problem.replicas, problem.features, problem.groups
        self.needs = frozenset(needs)
        self._picks = Rows(problem.zeros(b, 0, d))
        self._groups = Rows(torch.empty(b, 0, dtype=torch.int64, device=problem.device))
        self._rewards = Rows(problem.zeros(b, 0))
        self.contexts = context_store(problem, memory)
        self._group_count = g
        self._unknown = Outcomes(
            problem.zeros(b, 1, d),
            torch.full((b, 1), -1, device=problem.device),
            problem.zeros(b, 1),
        )
        self.earliest, self.taken, self.pools, self.places = NEVER, 0, 0, 0

    @property
    def played(self) -> int:
        """The last round that was decided."""
        return self._rewards.count

    def outcomes(self, after: int, until: int) -> Outcomes:
        """Picks and rewards of rounds after+1 … until.

        Raises:
            FairbanditError: rounds that are not kept.
        """
        return Outcomes(_kept(self._picks, after, until), *self.rewards(after, until))

    def rewards(self, after: int, until: int) -> tuple[Tensor, Tensor]:
        """The same rounds' groups and rewards, (B, n) each: of many rounds, much less to read."""
        return _kept(self._groups, after, until), _kept(self._rewards, after, until)

    def add_outcomes(self, contexts: Tensor, groups: Tensor, rewards: Tensor) -> None:
        """Records the picks of the next N rounds: (B, N, d), (B, N), (B, N)."""
        self.earliest = min(self.earliest, self.played + 1)
        self._add(Outcomes(contexts, groups, rewards))

    def add_unknown(self) -> None:
        """Records that the next round was decided, and that its reward is not known yet."""
        self._add(self._unknown)

    def learn(self, t: int, outcome: Outcomes) -> None:
        """Records the outcome, (B, 1, …), of a round that was unknown."""
        self.earliest = min(self.earliest, t)
        self._picks.write(t, outcome.contexts)
        self._groups.write(t, outcome.groups)
        self._rewards.write(t, outcome.rewards)

    def unlearn(self, t: int) -> None:
        """Makes a round unknown that `learn` has, or had begun to have, recorded."""
        self._picks.write(t, self._unknown.contexts)
        self._groups.write(t, self._unknown.groups)
        self._rewards.write(t, self._unknown.rewards)

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

    def forget(self, outcomes: int, contexts: int) -> None:
        """Rounds up to these are not asked for again.

        Args:
            outcomes: the last round whose pick may go, unless a rank needs rewards.
            contexts: the last round whose pool may go.
        """
        if "rewards" not in self.needs:
            for rows in (self._picks, self._groups, self._rewards):
                rows.forget(outcomes)
        if "contexts" in self.needs:
            self.contexts.forget(contexts)

    def grow(self, problem: Problem) -> None:
        """Makes room for the groups that a problem has more."""
        self._group_count = problem.groups
        self.contexts.grow(problem.groups)

    def state(self) -> dict[str, Any]:
        """All that is kept, as plain tensors and numbers."""
        kept = {name: rows.state() for name, rows in self._rows().items()}
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        return {**kept, **numbers, "contexts": self.contexts.state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state that `state` gave.

        Raises:
            FairbanditError: a state of another problem, or one of which parts do not match.
        """
        for name, rows in self._rows().items():
            rows.load_state(state[name])
        self.contexts.load_state(state["contexts"])
        for name in _NUMBERS:
            setattr(self, name, checks.count(name, state[name], most=NEVER))
        self._match()

    def stores(self) -> list[object]:
        """All objects that hold it. Whoever keeps their attributes can go back to them.

        What `learn` writes over is the exception; `unlearn` takes it back.
        """
        return [self, *self.contexts.holders(), *self._rows().values()]

    def _match(self) -> None:
        """Refuses a state whose parts are not of the same rounds and groups.

        Raises:
            FairbanditError: such a state.
        """
        spans = {rows.kept for rows in (self._picks, self._groups, self._rewards)}
        groups = self._groups[self._groups.kept]
        known = bool(((groups >= -1) & (groups < self._group_count)).all())
        match = self.taken <= self.played <= self.pools and len(spans) == 1 and known
        if not match or ("contexts" in self.needs and self.contexts.rounds != self.pools):
            raise FairbanditError(
                f"a saved history of {self.played} rounds: its outcomes, pools and contexts are "
                "not of the same rounds and groups"
            )

    def _add(self, outcomes: Outcomes) -> None:
        self._picks.append(outcomes.contexts)
        self._groups.append(outcomes.groups)
        self._rewards.append(outcomes.rewards)

    def _rows(self) -> dict[str, Rows]:
        return {
            "picks": self._picks,
            "groups": self._groups,
            "rewards": self._rewards,
        }


def _kept(rows: Rows, after: int, until: int) -> Tensor:
    """Rows of rounds after+1 … until, or what to do for them."""
    try:
        return rows[after, until]
    except IndexError as error:
        raise FairbanditError(
            f"past outcomes: {error}. Rounds that the estimator has learned from are forgotten, "
            'unless the rank declares needs = frozenset({"rewards"})'
        ) from error

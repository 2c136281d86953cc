"""The past rounds that a policy's parts may read, and no others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.maths import checks
from fairbandit.maths.buffers import Rows
from fairbandit.maths.lists import Lists
from fairbandit.parts.base import Problem
from fairbandit.parts.index import Index
from fairbandit.parts.splits import Spans


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

    Contexts are kept as one growing list a group, in order of round, so that a window of rounds
    is a run of consecutive entries and a pool's layout no longer matters.

    Args:
        problem: sizes, device and dtype.
        needs: what to keep besides the picks that teach the estimator; a subset of `NEEDS`.

    Attributes:
        earliest: the first round whose reward is known, `NEVER` while there is none.
        taken: the estimator has taken in the outcomes up to this round.
        pools, places: how many pools there were so far, and how many places in them.
    """

    def __init__(self, problem: Problem, needs: Collection[str]) -> None:
        unknown = set(needs) - NEEDS
        if unknown:
            raise FairbanditError(f"a rank can need {sorted(NEEDS)}; got {sorted(unknown)}")
        b, d, g = problem.replicas, problem.features, problem.groups
        self.needs = frozenset(needs)
        self._picks = Rows(problem.zeros(b, 0, d))
        self._groups = Rows(torch.empty(b, 0, dtype=torch.int64, device=problem.device))
        self._rewards = Rows(problem.zeros(b, 0))
        self.lists = Lists(problem.zeros(b, 0, d), g)
        self.index = Index()
        # entries by now, and by the end of each round from 0 on, (B, 1 + round, G)
        self._total = torch.zeros(b, 1, g, dtype=torch.int64, device=problem.device)
        self._totals = Rows(self._total.clone())
        self._every = torch.arange(g, device=problem.device)
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
        b, n, k, d = contexts.shape
        self.pools += n
        self.places += n * k if places is None else places
        if "contexts" not in self.needs:
            return
        g = self._total.shape[2]
        flat = groups.reshape(b, n * k)
        member = flat.unsqueeze(2) == self._every
        order = member.cumsum(1).add_(self._total)
        self._totals.append(order.view(b, n, k, g).select(2, k - 1))
        self._total = order[:, -1:]
        self.lists.reserve(self._total.amax((0, 1)).tolist())
        own = flat.clamp(min=0)
        place = (self.lists.addresses + order).gather(2, own.unsqueeze(2)).squeeze(2) - 1
        place = place.where(flat >= 0, self.lists.nowhere)
        self.lists.write(own, place, contexts.reshape(b, n * k, d))

    def shift(self, k: int) -> int:
        """How many more places the pools so far had than as many pools of k places."""
        return self.places - self.pools * k

    def total(self, rounds: Tensor) -> Tensor:
        """How many entries each group has had by the end of given rounds, (N,): (B, N, G)."""
        if len(rounds) == 1:
            low = int(rounds.item())
            return self._totals[low, low + 1]
        low, high = (int(end) for end in rounds.aminmax())
        return self._totals[low, high + 1].index_select(1, rounds - low)

    def window(self, spans: Spans) -> tuple[Tensor, Tensor]:
        """The entries that each round's window holds: start+1 … stop of each group, (B, N, G)."""
        return self.total(spans.after), self.total(spans.until)

    def entries(self, group: int, after: int, until: int) -> Tensor:
        """Entries after+1 … until of a group, in order of round: (B, until − after, d).

        Entries that a replica does not have (yet) hold anything.
        """
        return self.lists.entries(group, after, until)

    def forget(self, outcomes: int, contexts: int) -> None:
        """Rounds up to these are not asked for again.

        Args:
            outcomes: the last round whose pick may go, unless a rank needs rewards.
            contexts: the last round whose pool may go.
        """
        if "rewards" not in self.needs:
            for rows in (self._picks, self._groups, self._rewards):
                rows.forget(outcomes)
        if "contexts" in self.needs and contexts > 0:
            gone = self.total(torch.tensor([contexts], device=self._total.device))[:, 0]
            # what the index holds is subtracted by scanning it
            self.lists.forget(self.index.least(gone.amin(0).tolist()))
            self._totals.forget(contexts)

    def grow(self, problem: Problem) -> None:
        """Makes room for the groups that a problem has more."""
        g = problem.groups
        self.lists.grow(g)
        self.index = Index()
        self._totals.widen(g)
        self._total = torch.nn.functional.pad(self._total, (0, g - self._total.shape[2]))
        self._every = torch.arange(g, device=problem.device)

    def state(self) -> dict[str, Any]:
        """All that is kept, as plain tensors and numbers."""
        kept = {name: rows.state() for name, rows in self._rows().items()}
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        return {**kept, **numbers, **self.lists.state(), "total": self._total}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state that `state` gave.

        Raises:
            FairbanditError: a state of another problem, or one of which parts do not match.
        """
        for name, rows in self._rows().items():
            rows.load_state(state[name])
        self.lists.load_state(state["entries"], state["dropped"])
        self._total = checks.like("total", state["total"], self._total)
        for name in _NUMBERS:
            setattr(self, name, checks.count(name, state[name], most=NEVER))
        self._match()

    def stores(self) -> list[object]:
        """All objects that hold it. Whoever keeps their attributes can go back to them.

        What `learn` writes over is the exception; `unlearn` takes it back.
        """
        return [self, self.lists, *self._rows().values()]

    def _match(self) -> None:
        """Refuses a state whose parts are not of the same rounds and groups.

        Raises:
            FairbanditError: such a state.
        """
        spans = {rows.kept for rows in (self._picks, self._groups, self._rewards)}
        groups = self._groups[self._groups.kept]
        known = bool(((groups >= -1) & (groups < len(self._every))).all())
        match = self.taken <= self.played <= self.pools and len(spans) == 1 and known
        if not match or ("contexts" in self.needs and not self._totals_match()):
            raise FairbanditError(
                f"a saved history of {self.played} rounds: its outcomes, pools and contexts are "
                "not of the same rounds and groups"
            )

    def _totals_match(self) -> bool:
        """Whether the totals are of all pools, and the lists hold the entries that they count."""
        after, until = self._totals.kept
        if not after < until == self.pools + 1:
            return False
        totals = self._totals[after, until]
        first, last = totals[:, 0].amin(0).tolist(), self._total.amax((0, 1)).tolist()
        spans = zip(self.lists.spans(), first, last, strict=True)
        return (
            bool((totals.diff(dim=1) >= 0).all())
            and torch.equal(totals[:, -1:], self._total)
            and all(start <= low and stop == high for (start, stop), low, high in spans)
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
            "totals": self._totals,
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

"""A group's empirical CDF in bounded memory: its latest contexts only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.parts.base import Problem, State
from fairbandit.parts.candidates import Candidates
from fairbandit.parts.history import NEVER
from fairbandit.parts.past import Past
from fairbandit.parts.ranks import Rank
from fairbandit.parts.splits import PAPER, Division
from fairbandit.registry import register

MOST_KEPT = 1_000_000
"""The most contexts of a group that are kept; the rank exists to keep few."""


class Latest:
    """The last m contexts of each group before some rounds, and those of these rounds.

    Group g's entries are its m kept contexts in order of round, those that are missing first, and
    then its contexts of the rounds at hand. Every round reads at most m of them.

    Args:
        kept: the kept contexts, (B, G, m, d).
        seen: their rounds, (B, G, m) int64, 0 where one is missing.
        first: the first of N rounds, the one after those that were kept from.
        contexts: (B, N, K, d).
        groups: (B, N, K) int64, −1 an empty place.
    """

    index = lists = None

    def __init__(
        self, kept: Tensor, seen: Tensor, first: int, contexts: Tensor, groups: Tensor
    ) -> None:
        b, g, m, d = kept.shape
        n, k = groups.shape[1:]
        self._size, device = m, kept.device
        self._rounds = torch.arange(first, first + n, device=device)
        self._contexts = torch.cat([kept.reshape(b, g * m, d), contexts.reshape(b, n * k, d)], 1)
        one_of = torch.arange(g, device=device)[:, None]
        member = groups.reshape(b, 1, n * k) == one_of
        order = member.cumsum(2)
        self._added = order[:, :, -1:]
        length = m + int(self._added.max())
        # each entry's place among all contexts, and its round; one more takes what is no member
        place = torch.zeros(b, g, length + 1, dtype=torch.int64, device=device)
        place[..., :m] = one_of * m + torch.arange(m, device=device)
        rounds = torch.full_like(place, NEVER)
        rounds[..., :m] = seen
        entry = torch.where(member, m + order - 1, length)
        news = torch.arange(n * k, device=device)
        place.scatter_(2, entry, (g * m + news).expand(b, g, -1))
        rounds.scatter_(2, entry, (first + news // k).expand(b, g, -1))
        self._place, self._round = place[..., :-1], rounds[..., :-1].contiguous()

    def window(self, division: Division) -> tuple[Tensor, Tensor]:
        """Of each group's last m entries before a round, those in its window; see `Store`."""
        stop = self._until(division.stop)
        oldest = self._until(self._rounds - 1) - self._size
        return torch.maximum(self._until(division.start), oldest).minimum(stop), stop

    def entries(self, group: int, after: int, until: int) -> Tensor:
        """Entries after+1 … until of a group; see `Store`."""
        return self._take(self._place[:, group, after:until])

    def latest(self) -> tuple[Tensor, Tensor]:
        """What to keep after these rounds: contexts, (B, G, m, d), and their rounds, (B, G, m)."""
        last = self._added + torch.arange(self._size, device=self._added.device)
        place = self._place.gather(2, last)
        kept = self._take(place.flatten(1)).unflatten(1, place.shape[1:])
        return kept, self._round.gather(2, last)

    def _until(self, rounds: Tensor) -> Tensor:
        """How many entries each group has by the end of given rounds, (N,): (B, N, G)."""
        wanted = rounds.expand(*self._round.shape[:2], -1).contiguous()
        return torch.searchsorted(self._round, wanted, right=True).transpose(1, 2)

    def _take(self, places: Tensor) -> Tensor:
        index = places[..., None].expand(-1, -1, self._contexts.shape[2])
        return self._contexts.gather(1, index)


@register("rank", "recent_cdf")
class RecentCdf(Rank):
    """Share of the group's last m contexts whose score, under this round's model, is no higher.

    F̂(s) = n⁻¹ Σ 1{sᵢ ≤ s} over the n ≤ m contexts that are both in the round's window and among
    the last m of the group before the round, all scored again under this round's model. Memory
    and work a round do not grow with the rounds. If the group's contexts are independent and the
    model does not depend on them, |F̂ − F| exceeds √(ln(2/δ)/(2n)) anywhere with probability at
    most δ. A candidate of a group without such contexts gets a rank drawn from U(0, 1).

    Args:
        size: m, from 1 to `MOST_KEPT`.

    Raises:
        FairbanditError: a size out of range.
    """

    reference = (
        f"{PAPER}; the bound: Massart, The tight constant in the Dvoretzky-Kiefer-Wolfowitz "
        "inequality, Annals of Probability 1990"
    )
    draws = True

    def __init__(self, *, size: int = 200) -> None:
        if not 1 <= size <= MOST_KEPT:
            raise FairbanditError(f"size must be from 1 to {MOST_KEPT:,}, got {size}")
        self.size = size

    def bind(self, problem: Problem) -> None:
        """Starts with nothing kept."""
        super().bind(problem)
        b, g, m = problem.replicas, problem.groups, self.size
        self._kept = problem.zeros(b, g, m, problem.features)
        self._seen = torch.zeros(b, g, m, dtype=torch.int64, device=problem.device)
        self._observed = 0

    def grow(self, problem: Problem) -> None:
        """Starts with nothing kept of the new groups."""
        kept, seen = self._kept, self._seen
        self._kept = problem.zeros(kept.shape[0], problem.groups, *kept.shape[2:])
        self._seen = seen.new_zeros(self._kept.shape[:3])
        self._kept[:, : kept.shape[1]], self._seen[:, : seen.shape[1]] = kept, seen
        super().grow(problem)

    def observe(self, first: int, contexts: Tensor, groups: Tensor) -> None:
        """Keeps the last m contexts of each group."""
        self._kept, self._seen = self._with(first, contexts, groups).latest()
        self._observed = first + groups.shape[1] - 1

    def state(self) -> State:
        """The kept contexts, the rounds that they are from, and the last round observed."""
        return {"kept": self._kept, "seen": self._seen, "observed": self._observed}

    def _load(self, state: Mapping[str, Any]) -> None:
        self._kept, self._seen, self._observed = state["kept"], state["seen"], state["observed"]

    def _index(self, candidates: Candidates) -> Tensor:
        asked = candidates
        store = self._with(asked.first, asked.contexts, asked.groups)
        past = Past(store, asked.division, asked.groups, asked.model, asked.of_round)
        return asked.drawn_where(past.count == 0, past.at_most(asked.upper_scores) / past.count)

    def _with(self, first: int, contexts: Tensor, groups: Tensor) -> Latest:
        if first != self._observed + 1:
            raise FairbanditError(
                f"rank {self.part_name!r} observed rounds 1 to {self._observed}, so the next one "
                f"is {self._observed + 1}; got round {first}"
            )
        return Latest(self._kept, self._seen, first, contexts, groups)

"""The candidates of an opening so far, as a value, and the decision about each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Self, cast

import msgspec
import torch
from torch import Tensor

from fairbandit.files.formats import Count, Natural, Number, fitted, mapping
from fairbandit.history import Problem
from fairbandit.logs import Floats, Ints
from fairbandit.selectors import Candidates, Course, Places, Ranked, Rolling, Selector
from fairbandit.selectors.stopping import hazards, thresholds

_STATE = mapping(
    name=str,
    places=Count,
    law=str | list[float],
    candidates=int | None,
    held=list[tuple[Natural, Number]],
)


class Offer(NamedTuple):
    """The decision about a candidate of an opening.

    Attributes:
        taken: whether the candidate is taken.
        candidate: the candidate's number in the opening, from 0.
        ticket: the ticket for the rewards of all picks of the opening; None without a pick.
        probability: the probability that the candidate is among the picks of the opening, given the
            past and the rank's draws; 0 or 1 unless the policy explores.
        rank: the index of the candidate, an estimated relative rank.
        threshold: the least index that is taken; ∞ if all places are taken, and −∞ if the places
            left are enough for all who may come.
        to_come: the expected number of candidates from this candidate on, with itself.
    """

    taken: bool
    candidate: int
    ticket: int | None
    probability: float
    rank: float
    threshold: float
    to_come: float


class Offers(NamedTuple):
    """An opening and its n candidates so far.

    An opening is one round, which takes place when it is closed. Until then its candidates do not
    feed the ranks, not even of each other: all candidates of an opening are compared with earlier
    rounds, as in a simulation, where an opening is a pool in order of arrival. Each candidate is
    ranked by what is known at the arrival.
    """

    name: str
    places: int  # m
    law: str | list[float]  # of the number of candidates, as for `hazards`
    candidates: int | None
    contexts: Tensor  # of the candidates in their order, (1, n, d)
    groups: Tensor  # (1, n)
    taken: Tensor  # whether each candidate is taken, (n,) bool
    chance: Tensor  # of `Places` after the candidates, (m + 1,)
    best: Tensor  # the same, (m,) or more
    held: Mapping[int, float] = MappingProxyType({})  # rewards before the opening is closed

    @classmethod
    def new(cls, problem: Problem, name: str, places: int, law: Any, candidates: Any) -> Self:
        """Returns an opening without candidates; an unknown law raises a `FairbanditError`."""
        thresholds(hazards(law, candidates), places)
        _, chance, best = Places.all_left(places, torch.zeros(()))
        contexts, codes = problem.zeros(1, 0, problem.features), torch.zeros(1, 0).long()
        of_candidates = contexts, codes, problem.zeros(0).bool()
        return cls(name, places, law, candidates, *of_candidates, chance, best)

    @property
    def n(self) -> int:
        """The number of candidates so far."""
        return len(self.taken)

    @property
    def picks(self) -> tuple[int, ...]:
        """The numbers of the candidates who are taken."""
        return tuple(self.taken.nonzero()[:, 0].tolist())

    @property
    def rows(self) -> tuple[Floats, Ints]:
        """The candidates as a pool in their order of arrival, (n, d) and (n,)."""
        return self.contexts[0].numpy(), self.groups[0].numpy()

    def step(self, selector: Selector, ranked: Ranked) -> tuple[Places, Course]:
        """Decides about a further candidate, the only one of a pool that is ranked, (1, 1) each."""
        zero, law = torch.zeros_like(ranked.groups), hazards(self.law, self.candidates)
        (candidate,) = Candidates.of(ranked, self.places, law, zero + self.n, zero).in_turn()
        left = zero[..., 0] + self.places - self.taken.sum()
        places = Places(left, self.chance[None, None], self.best[None, None])
        return cast(Rolling, selector).step(places, candidate)

    def offered(self, selector: Selector, ranked: Ranked, ticket: int) -> tuple[Self, Offer]:
        """Returns the opening with a further candidate, and the decision about the candidate."""
        (places, course), scored = self.step(selector, ranked), ranked.scored
        new = self._replace(
            contexts=torch.cat([self.contexts, scored.contexts[:, 0]], 1),
            groups=torch.cat([self.groups, scored.groups[:, 0]], 1),
            taken=torch.cat([self.taken, course.taken[0]]),
            chance=places.chance[0, 0],
            best=places.best[0, 0],
        )
        taken, probability, threshold, to_come = (part.item() for part in course)
        rank, at = float(ranked.index.value), ticket if taken else None
        return new, Offer(bool(taken), self.n, at, probability, rank, threshold, to_come)

    def state(self) -> dict[str, Any]:
        """Returns the opening as plain tensors and numbers."""
        return {**self._asdict(), "held": [*map(list, self.held.items())]}

    @classmethod
    def restored(cls, state: Mapping[str, Any], problem: Problem) -> Self:
        """Restores an opening of a problem; raises an error for an invalid state."""
        plain = msgspec.convert({key: state[key] for key in _STATE.__annotations__}, _STATE)
        held = dict(plain.pop("held"))
        new = cls.new(problem, **plain)._replace(best=problem.zeros(0))  # of any size
        parts = {key: fitted(state[key], getattr(new, key)) for key in cls._fields[4:9]}
        return new._replace(held=held, **{key: part.clone() for key, part in parts.items()})

"""The candidates of an opening so far, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import msgspec
import torch
from torch import Tensor

from fairbandit.formats import Count, fitted, mapping, within
from fairbandit.maths.stopping import hazards
from fairbandit.part import Problem
from fairbandit.policy import Policy
from fairbandit.scored import Ranked
from fairbandit.selectors import Course, Rolling, seen
from fairbandit.streams import Purpose
from fairbandit.ties import Approximate

_STATE = mapping(ticket=Count, places=Count, law=str | list[float], candidates=int | None)


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
        to_come: the expected number of candidates from this one on, with itself.
    """

    taken: bool
    candidate: int
    ticket: int | None
    probability: float
    rank: float
    threshold: float
    to_come: float


class Offers(NamedTuple):
    """The n candidates of an opening so far; which of them are taken follows from these.

    Attributes:
        ticket: the number of the opening's decision.
        places: m, the number of places.
        law, candidates: the law of the number of candidates, as for `hazards`.
        contexts, groups: of the candidates in their order, (1, n, d) and (1, n).
        ranks: the index of each when it came, and its slack, (2, n).
        draws: the draw of each, (n,); 0 without exploration.
    """

    ticket: int
    places: int
    law: Any
    candidates: int | None
    contexts: Tensor
    groups: Tensor
    ranks: Tensor
    draws: Tensor

    @classmethod
    def new(cls, ticket: int, places: int, law: Any, candidates: Any, problem: Problem) -> Self:
        """Returns an opening without candidates; an unknown law raises a `FairbanditError`."""
        hazards(law, candidates)
        none = problem.zeros(1, 0, problem.features)
        codes = torch.zeros(1, 0, dtype=torch.int64)
        further = none, codes, problem.zeros(2, 0), problem.zeros(0)
        return cls(ticket, places, law, candidates, *further)

    @property
    def n(self) -> int:
        """The number of candidates so far."""
        return self.draws.shape[0]

    def offered(self, selector: Rolling, ranked: Ranked) -> Offers:
        """Returns the opening with a further candidate, the only one of a pool that is ranked."""
        scored, (value, slack) = ranked.scored, seen(ranked)
        draws = scored.draws(Purpose.ORDER) if selector.epsilon else torch.zeros_like(value)
        assert isinstance(slack, Tensor)
        return self._replace(
            contexts=torch.cat([self.contexts, scored.contexts[:, 0]], 1),
            groups=torch.cat([self.groups, scored.groups[:, 0]], 1),
            ranks=torch.cat([self.ranks, torch.cat([value[0], slack[0]])], 1),
            draws=torch.cat([self.draws, draws[0, 0]]),
        )

    def course(self, selector: Rolling) -> Course:
        """Returns the decisions about the candidates so far, (1, 1, n) each."""
        value, slack = self.ranks[:, None, None]
        law, draws = hazards(self.law, self.candidates), self.draws[None, None]
        present = torch.ones_like(value, dtype=torch.bool)
        return selector.course(Approximate(value, slack), present, draws, self.places, law)

    def taken(self, policy: Policy) -> tuple[int, ...]:
        """Returns the numbers of the candidates who are taken."""
        assert isinstance(policy.selector, Rolling)
        return tuple(self.course(policy.selector).taken[0, 0].nonzero()[:, 0].tolist())

    def state(self) -> dict[str, Any]:
        """Returns the opening as plain tensors and numbers."""
        return self._asdict()

    @classmethod
    def restored(cls, state: Mapping[str, Any], problem: Problem) -> Self:
        """Restores an opening of a problem; raises an error for an invalid state."""
        law = msgspec.convert({key: state[key] for key in cls._fields[:4]}, _STATE)
        pattern = cls.new(**law, problem=problem)
        parts = {key: fitted(state[key], getattr(pattern, key)) for key in cls._fields[4:]}
        n = parts["draws"].shape[0]
        same = all(part.shape[1] == n for key, part in parts.items() if key != "draws")
        valid = within(parts["groups"], 0, problem.groups - 1) and within(parts["draws"], 0, 1)
        if not same or not valid or bool(parts["ranks"].isnan().any()):
            raise ValueError("the candidates of an opening do not fit each other")
        return cls(**law, **{key: part.clone() for key, part in parts.items()})

"""Decisions and their explanations."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from fairbandit.agent.inputs import Pool
from fairbandit.agent.offers import Offers
from fairbandit.estimators import NoBounds
from fairbandit.maths import checks
from fairbandit.modes import inferring
from fairbandit.past import Knowledge
from fairbandit.policy import Policy
from fairbandit.selectors import Course, Rolling, Selection


class Decision(NamedTuple):
    """The picks of an agent in one round.

    Attributes:
        candidate: the index of the pick, or of the first pick, in its pool, from 0; −1 if the
            selector picked no candidate, as `rolling` may.
        ticket: the round's number, from 1, by which its reward is reported.
        propensity: the probability of the pick, given the past and the round's draws of the
            estimator and the rank.
        picks: all picks, in order of preference.
        propensities: the probability of each pick to be among the picks.
    """

    candidate: int
    ticket: int
    propensity: float
    picks: tuple[int, ...]
    propensities: tuple[float, ...]

    @classmethod
    def of(cls, ticket: int, selection: Selection) -> Self:
        """Builds the decision of a selection of one round and replica, without empty slots."""
        [[places]], [[chances]] = selection.actions.tolist(), selection.propensities.tolist()
        n = sum(place >= 0 for place in places)
        return cls(places[0], ticket, chances[0], tuple(places[:n]), tuple(chances[:n]))


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """The quantities behind the decision about a pool of K candidates; it prints as a table.

    Scores, bounds and θ come from the reward model of the next round, with the draws of that round.
    Until the first reward is known, all indices of a learning policy are 0.

    Attributes:
        groups: the labels of the K candidates' groups.
        scores: the candidates' scores, (K,).
        lower, upper: confidence bounds of the true rewards, (K,) each; None if the estimator's
            models lack bounds.
        index: the index that the rank computes and the selector picks by, (K,).
        index_lower, index_upper: bounds of the index of the true rewards, (K,) each; None if the
            rank or the estimator's models lack bounds.
        past_count: the number of past contexts of its group with which each candidate is compared,
            (K,) int64; None if the rank does not read past contexts.
        probabilities: the probability of each candidate to be picked, (K,), given the past and the
            round's draws of the estimator and the rank.
        threshold: the least index of each candidate that is taken, (K,), for selectors whose
            candidates come one at a time; else None.
        to_come: the expected number of candidates from each on, with itself, (K,), or None.
        theta: θ, (d,); None if the score is not a linear function of the context.
    """

    groups: tuple[Hashable, ...]
    scores: Tensor
    lower: Tensor | None
    upper: Tensor | None
    index: Tensor
    index_lower: Tensor | None
    index_upper: Tensor | None
    past_count: Tensor | None
    probabilities: Tensor
    threshold: Tensor | None
    to_come: Tensor | None
    theta: Tensor | None

    def __repr__(self) -> str:
        columns: dict[str, Sequence[Any] | Tensor | None] = {
            "candidate": range(len(self.groups)),
            "group": [checks.shown(label) for label in self.groups],
            "score": self.scores,
            "lower": self.lower,
            "upper": self.upper,
            "index": self.index,
            "index_lower": self.index_lower,
            "index_upper": self.index_upper,
            "past": self.past_count,
            "threshold": self.threshold,
            "to_come": self.to_come,
            "probability": self.probabilities,
        }
        cells = [
            [name, *map(_text, values.tolist() if isinstance(values, Tensor) else values)]
            for name, values in columns.items()
            if values is not None
        ]
        widths = [max(map(len, column)) for column in cells]
        rows = zip(*cells, strict=True)
        return "\n".join("  ".join(map(str.rjust, row, widths)) for row in rows)


def explanation(
    policy: Policy, known: Knowledge, pool: Pool, picks: int, offers: Offers | None = None
) -> Explanation:
    """Explains how a policy decides the next round.

    With the `offers` of an opening so far, the pool is the opening's next candidate.
    """
    values: dict[str, Any] = dict.fromkeys(field.name for field in fields(Explanation))
    ranked = policy.ranked(known, known.past.rounds + 1, pool.tensors)
    scored = ranked.scored
    if isinstance(selector := policy.selector, Rolling):
        course = selector.watched(ranked, picks)
        if offers is not None:
            course = Course(
                *(o[..., -1:] for o in offers.offered(selector, ranked).course(selector))
            )
        _, values["probabilities"], values["threshold"], values["to_come"] = course
    else:
        values["probabilities"] = selector.select(ranked, picks).inclusion
    values["scores"], values["index"] = scored.scores.value, ranked.index.value
    values["theta"] = scored.models.distinct.theta
    with suppress(NoBounds):
        values["lower"], values["upper"] = scored.bounds()
        values["index_lower"], values["index_upper"] = policy.rank.bounds(scored, ranked.index)
    if "contexts" in policy.rank.needs:
        values["past_count"] = scored.past.count.to(torch.int64)
    # copies, which the caller can modify and differentiate
    for name, tensor in values.items():
        values[name] = None if tensor is None else inferring(False, tensor[0, 0].detach().clone)
    values["groups"] = tuple(pool.labels)
    return Explanation(**values)


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)

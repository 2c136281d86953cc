"""Decisions, and what explains them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from fairbandit.estimators import NoBounds
from fairbandit.maths import checks
from fairbandit.modes import inferring
from fairbandit.past import Knowledge
from fairbandit.policy import Policy
from fairbandit.selectors import Selection


class Decision(NamedTuple):
    """What an agent decided.

    Attributes:
        candidate: the index of the picked candidate in its pool, from 0; of several, the first.
        ticket: the round's number, from 1, by which its reward is reported.
        propensity: the probability of the pick, given the past and the round's draws of the
            estimator and the rank.
        picks: all picks, in order of preference.
        propensities: the probability of each to be among them.
    """

    candidate: int
    ticket: int
    propensity: float
    picks: tuple[int, ...]
    propensities: tuple[float, ...]

    @classmethod
    def of(cls, ticket: int, selection: Selection) -> Self:
        """The decision that a selection makes, of one round and replica and without empty slots."""
        [[picks]], [[chances]] = selection.actions.tolist(), selection.propensities.tolist()
        return cls(picks[0], ticket, chances[0], tuple(picks), tuple(chances))


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """What the decision about a pool of K candidates rests upon; printed, it is a table.

    Scores, bounds and θ are those of the reward model that the next round uses, with that round's
    draws. Until there is a reward to learn from, all indices of a policy that learns are 0.

    Attributes:
        groups: the candidates' labels, K of them.
        scores: (K,).
        lower, upper: confidence bounds of the true rewards, (K,) each; None where the estimator's
            models have none.
        index: what the rank made of the scores, and the selector picks by, (K,).
        index_lower, index_upper: bounds of the index that the true rewards give, (K,) each; None
            where the rank or the estimator's models have none.
        past_count: how many past contexts of its own group each candidate was compared with, (K,)
            int64; None where the rank reads no past contexts.
        probabilities: of being among the picks, (K,), given the past and the round's draws of the
            estimator and the rank.
        theta: θ, (d,); None where the score is no linear function of the context.
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
    policy: Policy,
    known: Knowledge,
    contexts: Tensor,
    groups: Tensor,
    labels: Sequence[Hashable],
    picks: int,
) -> Explanation:
    """Explains how a policy decides the next round, about a pool (1, 1, K, d) and (1, 1, K)."""
    shown: dict[str, Any] = dict.fromkeys(field.name for field in fields(Explanation))
    ranked = policy.ranked(known, known.past.rounds + 1, (contexts, groups))
    scored = ranked.scored
    shown["probabilities"] = policy.selector.select(ranked, picks).inclusion
    shown["scores"], shown["index"] = scored.scores.value, ranked.index.value
    shown["theta"] = scored.models.distinct.theta
    with suppress(NoBounds):
        shown["lower"], shown["upper"] = scored.bounds()
        shown["index_lower"], shown["index_upper"] = policy.rank.bounds(scored, ranked.index)
    if "contexts" in policy.rank.needs:
        shown["past_count"] = scored.past.count.to(torch.int64)
    # copies, which the caller may write to and differentiate
    for name, tensor in shown.items():
        shown[name] = None if tensor is None else inferring(False, tensor[0, 0].detach().clone)
    shown["groups"] = tuple(labels[group] for group in groups[0, 0].tolist())
    return Explanation(**shown)


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)

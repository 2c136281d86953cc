"""Decisions, and what explains them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from fairbandit.estimators import NoBounds
from fairbandit.maths.checks import shown
from fairbandit.modes import inferring
from fairbandit.policy import Knowledge, Policy
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
        """The decision that a selection of one round and replica makes."""
        [[picks]], [[chances]] = selection.actions.tolist(), selection.propensities.tolist()
        if isinstance(picks, int):
            return cls(picks, ticket, chances, (picks,), (chances,))
        made = tuple(place for place in picks if place >= 0)  # empty slots are the last ones
        return cls(made[0], ticket, chances[0], made, tuple(chances[: len(made)]))


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
            "group": [shown(label) for label in self.groups],
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
    found: dict[str, Any] = dict.fromkeys(field.name for field in fields(Explanation))
    candidates = policy.candidates(known, known.past.rounds + 1, contexts, groups)
    selection = policy.selector.select(candidates, candidates.index, picks)
    found["probabilities"] = selection.probabilities
    found["scores"], found["index"] = candidates.scores, candidates.index
    found["theta"] = candidates._model.theta
    with suppress(NoBounds):
        found["lower"], found["upper"] = candidates.bounds()
        found["index_lower"], found["index_upper"] = candidates.bounds(of="index")
    if "contexts" in policy.rank.needs:
        found["past_count"] = candidates.past.count.to(torch.int64)
    # copies, which the caller may write to and differentiate
    for name, tensor in found.items():
        found[name] = None if tensor is None else inferring(False, tensor[0, 0].detach().clone)
    found["groups"] = tuple(labels[group] for group in groups[0, 0].tolist())
    return Explanation(**found)


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)

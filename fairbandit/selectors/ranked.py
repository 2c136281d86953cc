"""The ranked candidates, which selectors see."""

from __future__ import annotations

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.estimators.ties import Approximate
from fairbandit.ranks.scored import Scored


class Ranked:
    """Scored candidates with their index, as a selector sees them.

    In rounds whose reward model has seen no reward, all candidates tie: their index is 0
    with infinite slack, and its bounds are −∞ and ∞. The index of the rank is not used.

    Args:
        scored: the candidates, with their scores and their past.
        index: the rank's index, (B, N, K).
        bounds: lower and upper bounds of the index, (B, N, K) each; None if no part needs them.
        pick_counts: how often each group was picked before each round, (B, N, G) int64; None if no
            part reads past picks.

    Attributes:
        scored: the argument.
        index: the index, an `Approximate`.
        problem, groups, present: attributes of `scored`.
    """

    def __init__(
        self,
        scored: Scored,
        index: Approximate,
        bounds: tuple[Tensor, Tensor] | None = None,
        pick_counts: Tensor | None = None,
    ) -> None:
        if scored.models.informed is not None:
            if_informed, (value, slack) = scored.models.if_informed, index
            slack = if_informed(slack + torch.zeros_like(value), torch.inf)
            index = Approximate(if_informed(value, 0.0), slack)
            if bounds is not None:
                low, high = bounds
                bounds = if_informed(low, -torch.inf), if_informed(high, torch.inf)
        self.scored, self.index = scored, index
        self._bounds, self._pick_counts = bounds, pick_counts
        self.problem, self.groups, self.present = scored.problem, scored.groups, scored.present

    @property
    def bounds(self) -> tuple[Tensor, Tensor]:
        """Lower and upper bounds of the index under the true rewards, (B, N, K) each.

        Raises:
            FairbanditError: the selector does not declare that it needs bounds.
        """
        if self._bounds is None:
            raise FairbanditError('this selector reads bounds: declare needs = {"bounds"}')
        return self._bounds

    @property
    def pick_counts(self) -> Tensor:
        """The number of earlier picks of each group, (B, N, G) int64.

        Round t counts the picks of rounds 1 … t − 1, whether or not their rewards are known. In the
        first guess of a block, picks of undecided rounds are missing.

        Raises:
            FairbanditError: no part of the policy declares that it reads picks.
        """
        if self._pick_counts is None:
            raise FairbanditError('this part reads past picks: declare needs = {"picks"}')
        return self._pick_counts

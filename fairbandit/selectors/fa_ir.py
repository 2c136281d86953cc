"""Shortlists in which every prefix has enough of a protected group."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

import torch
from torch import Tensor

from fairbandit.estimators.ties import SUMS
from fairbandit.notices import remark
from fairbandit.registry import InnerShare, register
from fairbandit.registry.signatures import Range
from fairbandit.selectors.base import Ranked, Selection, Selector, best

HALVINGS = 40  # the number of halvings of the interval that holds the adjusted significance


@register("selector", "fa_ir")
@dataclass(kw_only=True, eq=False)
class FairTopK(Selector):
    """FA*IR: the best shortlist in none of whose prefixes a protected group is too rare by chance.

    If each place of a list went to the protected group with the probability p, independently, its
    number in the first i places would be binomial. At least t(i) of them must be protected: the
    smallest t with P(X ≤ t) > α_c for X ~ Binomial(i, p). A list drawn in this way has too few in
    one of its m prefixes with a probability of at most α, which the adjusted significance α_c
    ensures; α_c is the greatest such number up to α.

    The list is made from the front. A place that would otherwise leave too few protected candidates
    goes to the best of them, and every other place to the best candidate who is left. So the list
    has max(P, t(m)) protected candidates, where P is their number among the m best. If candidates
    of both kinds tie for the last places, the protected ones come first; ties of one kind are
    drawn. A pool with too few protected candidates gives all of them, as early as the rule asks.

    Args:
        protected: the number of the protected group, from 0, in the order of the groups. There is
            a notice while no group has it.
        share: p, above 0 and below 1, the smallest share that is fair. None is the share of the
            protected group in each pool.
        significance: α, above 0 and below 1.
    """

    reference = (
        "Zehlike, Bonchi, Castillo, Hajian, Megahed and Baeza-Yates, FA*IR: A Fair Top-k Ranking "
        "Algorithm, CIKM 2017"
    )

    protected: Annotated[int, Range(0)] = 1
    share: InnerShare | None = None
    significance: InnerShare = 0.1

    def select(self, ranked: Ranked, picks: int = 1) -> Selection:
        """Picks m places, in the order of the list; see `Selector.select`."""
        chosen = super().select(ranked, picks)
        if picks == 1:
            return chosen
        empty = chosen.actions < 0
        groups = ranked.groups.gather(2, chosen.actions.clamp(min=0))
        protected, least = (groups == self.protected) & ~empty, self._least(ranked, picks)
        place = torch.arange(picks, device=groups.device).expand_as(groups)
        left, number, order = ~empty, torch.zeros_like(groups[..., 0]), list[Tensor]()
        for i in range(picks):
            due = (number < least[..., i]) & (protected & left).any(2)
            key = place + picks * (due[..., None] & ~protected) + 2 * picks * ~left
            order.append(key.argmin(2))
            at = order[-1][..., None]
            number = number + (protected & left).gather(2, at)[..., 0].to(number.dtype)
            # a slot that is taken comes after slots that are empty
            left = left.scatter(2, at, False)
            place = place.scatter_add(2, at, torch.full_like(at, 2 * picks))
        ordered = torch.stack(order, 2)
        actions, propensities = (part.gather(2, ordered) for part in chosen[:2])
        return Selection(actions, propensities, chosen.inclusion)

    def _inclusion(self, ranked: Ranked, picks: int) -> Tensor:
        present, protected = ranked.present, ranked.groups == self.protected
        among_best = (best(ranked.index, present, picks) * protected).sum(2)
        size = present.sum(2).clamp(max=picks)
        number = (among_best - SUMS).ceil().maximum(self._least(ranked, picks)[..., -1])
        number = number.minimum(protected.sum(2)).minimum(size)
        amounts = torch.stack([size - number, number], 2)
        return best(ranked.index, present.to(amounts.dtype), amounts, protected.long())

    def _least(self, ranked: Ranked, picks: int) -> Tensor:
        """The least number of protected candidates in the first 1 … m places, (B, N, m) int64."""
        if self.protected >= ranked.problem.groups:
            remark(
                f"{self}: no group has the number protected={self.protected} so far; the numbers "
                f"are 0 to {ranked.problem.groups - 1}"
            )
        size = ranked.present.sum(2)
        shares = (ranked.groups == self.protected).sum(2).double() / size.clamp(min=1)
        if self.share is not None:
            shares = torch.full_like(shares, self.share)
        distinct, number = shares.unique(return_inverse=True)
        tables = [least_protected(picks, share, self.significance) for share in distinct.tolist()]
        return torch.tensor(tables, device=size.device)[number]


@lru_cache(1 << 12)
def least_protected(picks: int, share: float, significance: float) -> tuple[int, ...]:
    """The numbers t(1) … t(m) for m picks, a share p and the adjusted significance; see `FairTopK`.

    >>> least_protected(12, 0.5, 0.1), unadjusted(12, 0.5, 0.1)
    ((0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 3), (0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 3, 4))
    """
    low, high = 0.0, significance
    if failure(unadjusted(picks, share, high), share) <= significance:
        low = high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if failure(unadjusted(picks, share, middle), share) <= significance:
            low = middle
        else:
            high = middle
    return unadjusted(picks, share, low)


def unadjusted(picks: int, share: float, significance: float) -> tuple[int, ...]:
    """The smallest t with P(X ≤ t) > significance for X ~ Binomial(i, p), i = 1 … m."""
    numbers, chances = list[int](), [1.0]
    for _ in range(picks):
        chances = _one_more(chances, share)
        total, least = chances[0], 0
        while total <= significance:
            least += 1
            total += chances[least]
        numbers.append(least)
    return tuple(numbers)


def failure(table: tuple[int, ...], share: float) -> float:
    """The probability that a list of independent draws has too few in one of its prefixes."""
    chances, failed = [1.0], 0.0
    for least in table:
        chances = _one_more(chances, share)
        failed += sum(chances[:least])
        chances[:least] = [0.0] * least
    return failed


def _one_more(chances: list[float], share: float) -> list[float]:
    stays = [(1 - share) * chance for chance in chances] + [0.0]
    grows = [0.0] + [share * chance for chance in chances]
    return [stay + grow for stay, grow in zip(stays, grows, strict=True)]

"""Uniform over the candidates whose confidence intervals are chained to the highest one."""

from __future__ import annotations

import torch
from torch import Tensor

from fairbandit.registry import register
from fairbandit.scored import Ranked
from fairbandit.selectors.base import Selector
from fairbandit.ties import Approximate


@register("selector", "chain")
class Chain(Selector):
    """Any one, with equal probability, of the candidates chained to the highest interval.

    The interval of a candidate is [l, u], the bounds of its index. Two closed intervals that have
    a point in common are linked, so that intervals that only touch are. The chain holds the
    candidates that are connected, over any number of links, to the one of greatest u. With u in
    descending order, it ends before the first u that is below every l before it.

    If every index lies in its interval, whoever is outside the chain has a lower index than
    everyone in it: among the candidates, nobody is preferred to anyone as good or better. That is
    the fairness of Joseph et al., and it holds in a whole run with the probability that all
    intervals hold at once. Bounds tie as indices do, up to the tie ceiling.
    Where the bounds are the index itself, the chain is therefore what `argmax` chooses from.

    Of m picks, whole chains from the top are taken while they fit, and the next chain shares
    equally what is left.
    """

    reference = (
        "Joseph, Kearns, Morgenstern and Roth, Fairness in Learning: Classic and Contextual "
        "Bandits, NIPS 2016"
    )

    needs = frozenset({"bounds"})

    def _inclusion(self, ranked: Ranked, picks: int) -> Tensor:
        number, present = self._chains(ranked), ranked.present.to(torch.float64)
        sizes = torch.zeros_like(present).scatter_add_(2, number, present)
        before = (sizes.cumsum(2) - sizes).gather(2, number)
        return ((picks - before) / sizes.gather(2, number).clamp(min=1)).clamp(0, 1) * present

    def _chains(self, ranked: Ranked) -> Tensor:
        """The number of each candidate's chain from the top, from 0: (B, N, K) int64."""
        low, high = ranked.bounds
        high = Approximate(high, ranked.index.slack).greatest_tie
        high, order = high.where(ranked.present, -torch.inf).sort(2, descending=True)
        lowest = low.where(ranked.present, torch.inf).gather(2, order).cummin(2).values
        ends = torch.zeros_like(ranked.present)
        ends[..., 1:] = high[..., 1:] < lowest[..., :-1]
        return torch.zeros_like(order).scatter_(2, order, ends.cumsum(2))

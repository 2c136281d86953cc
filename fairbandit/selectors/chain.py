"""Uniform over the candidates whose confidence intervals are chained to the highest interval."""

from __future__ import annotations

import torch
from torch import Tensor

from fairbandit.estimators.ties import Approximate
from fairbandit.registry import register
from fairbandit.selectors.base import Ranked, Selector


@register("selector", "chain")
class Chain(Selector):
    """A uniform draw from the candidates whose intervals are chained to the highest interval.

    The interval of a candidate is [l, u], the bounds of its index. Two intervals are linked if they
    share a point; touching is enough. The chain consists of the candidates that are connected to
    the candidate of greatest u by any number of links. In descending order of u, the chain ends
    before the first u that is below all preceding l.

    If every index lies in its interval, each candidate outside the chain has a lower index than all
    candidates in it. No candidate is then preferred to a candidate that is as good or better. This
    is the fairness of Joseph et al.; it holds in a whole run with the probability that all
    intervals hold at once. The upper bound includes twice the slack of the index, so that bounds
    tie like indices. If the bounds equal the index and no slack differs, the chain consists of
    the candidates that tie with the best one over any number of links.

    For m picks, whole chains are taken from the top while they fit, and the candidates of the next
    chain share the remaining picks equally.
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
        low, high = ranked.bounds
        high = Approximate(high, ranked.index.slack).greatest_tie
        high, order = high.where(ranked.present, -torch.inf).sort(2, descending=True)
        lowest = low.where(ranked.present, torch.inf).gather(2, order).cummin(2).values
        starts = torch.zeros_like(ranked.present)
        starts[..., 1:] = high[..., 1:] < lowest[..., :-1]
        return torch.zeros_like(order).scatter_(2, order, starts.cumsum(2))

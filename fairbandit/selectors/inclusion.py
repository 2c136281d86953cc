"""Inclusion probabilities of several picks from a pool, and samples that have them exactly.

Reference: Madow, "On the theory of systematic sampling, II", Annals of Mathematical Statistics
1949.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fairbandit.estimators.ties import SUMS


def systematic(inclusion: Tensor, sizes: Tensor, start: Tensor, keys: Tensor | None) -> Tensor:
    """Draws m places by systematic sampling, with exactly the inclusion probabilities π, (…, K).

    Let c be the cumulative sums of π in the order of the keys. Place k is drawn if some u + j,
    j = 0 … m − 1, lies in [c_{k−1}, c_k). The last sum is set to m, to remove its rounding error.
    Sizes m = Σπ and starts u in [0, 1) are (…); keys (…, K) are nonnegative numbers, or None for
    the order of the places.

    Returns:
        The drawn places in ascending order, (…, greatest m) int64; K in the slots beyond m.

    >>> pi, keys = torch.tensor([0.5, 1.0, 0.5]), torch.tensor([1.0, 2.0, 3.0])
    >>> [systematic(pi, torch.tensor(2), torch.tensor(u), keys).tolist() for u in (0.1, 0.9)]
    [[0, 1], [1, 2]]
    """
    place = torch.arange(inclusion.shape[-1], device=inclusion.device)
    keys = place.expand(inclusion.shape) if keys is None else keys
    order = keys.masked_fill(inclusion <= 0, -1).argsort(-1)  # places with π = 0 come first
    sums = inclusion.gather(-1, order).cumsum(-1)
    sums[..., -1] = sizes.to(sums.dtype)
    point = torch.arange(int(sizes.max()), device=sums.device)
    points = (start[..., None] + point).to(sums.dtype)
    at, width = torch.searchsorted(sums, points.contiguous(), right=True), inclusion.shape[-1]
    # rounding may put two points into one interval: force distinct, increasing positions
    at = ((at - point).cummax(-1).values + point).minimum(width - sizes[..., None] + point)
    drawn = point < sizes[..., None]
    places = order.gather(-1, at.clamp(max=width - 1)).masked_fill(~drawn, width)
    return places.sort(-1).values


def filled(
    floor: Tensor, ceiling: Tensor, capacity: Tensor, amount: Tensor, kinds: Tensor | None = None
) -> Tensor:
    """Allots an amount to the best candidates first, each up to its capacity, (B, N, K).

    Candidates whose intervals [floor, ceiling] overlap at the threshold tie: they share the rest of
    the amount in proportion to their capacities. With capacities 1 and the amount m, the allotments
    are the inclusion probabilities of the m best. The amount is (B, N, 1), or (B, N, G) for the
    candidates of each of the `kinds` 0 … G − 1.

    >>> index, kinds = torch.tensor([[[3.0, 2.0, 2.0, 1.0]]]), torch.tensor([[[0, 0, 1, 1]]])
    >>> filled(index, index, torch.ones(1, 1, 4), torch.tensor([[[2.0]]]))
    tensor([[[1.0000, 0.5000, 0.5000, 0.0000]]])
    >>> filled(index, index, torch.ones(1, 1, 4), torch.tensor([[[1.5, 1.0]]]), kinds)
    tensor([[[1.0000, 0.5000, 1.0000, 0.0000]]])
    """
    kinds = torch.zeros_like(capacity, dtype=torch.int64) if kinds is None else kinds
    floor, ceiling = (end.where(capacity > 0, -torch.inf) for end in (floor, ceiling))
    zeros, limit = torch.zeros_like(amount), amount.gather(2, kinds)
    above, level = standing(floor, ceiling, capacity, kinds)
    certain = capacity.where(level <= limit + SUMS, 0)
    open_ = capacity.where((level > limit + SUMS) & (above < limit - SUMS), 0)
    left = amount - zeros.scatter_add(2, kinds, certain)
    share = (left / zeros.scatter_add(2, kinds, open_).clamp(min=SUMS)).clamp(0, 1)
    return certain + open_ * share.gather(2, kinds)


def standing(
    floor: Tensor, ceiling: Tensor, capacity: Tensor, kinds: Tensor
) -> tuple[Tensor, Tensor]:
    """The capacities certainly, and possibly, ahead of each candidate k of its kind, (B, N, K).

    The first sum is over all j with floor_j > ceiling_k, and the second over all j with
    ceiling_j ≥ floor_k, which include k.
    """
    k = capacity.shape[2]
    # where a ceiling equals a floor, the ceiling comes first
    order = torch.cat([ceiling, floor], 2).sort(dim=2, descending=True, stable=True).indices
    of_kind = kinds.repeat(1, 1, 2).gather(2, order)
    order = order.gather(2, of_kind.sort(dim=2, stable=True).indices)
    earlier = capacity.new_zeros(*kinds.shape[:2], int(kinds.max()) + 2)
    before = earlier.scatter_add_(2, kinds + 1, capacity).cumsum(2).gather(2, kinds)
    amounts, at_floor = capacity.repeat(1, 1, 2).gather(2, order), order >= k
    floors, ceilings = (amounts.where(at_floor == end, 0).cumsum(2) for end in (True, False))
    above = torch.empty_like(floors).scatter_(2, order, floors)[..., :k] - before
    return above, torch.empty_like(floors).scatter_(2, order, ceilings)[..., k:] - before


def capped_shares(logarithms: Tensor, capacity: Tensor, amount: Tensor) -> Tensor:
    """Shares min(capacity, c·weight), (…, K), with c such that they sum to an amount, (…, 1).

    Weights are divided by the greatest weight of a place that is not full. Places of tiny weight
    therefore share the rest in proportion; divided by the weight of a full place, they underflow.
    If the amount exceeds the sum of the capacities, all are filled.

    >>> capped_shares(torch.tensor([4.0, 1.0, 1.0]).log(), torch.ones(3), torch.tensor([2.0]))
    tensor([1.0000, 0.5000, 0.5000])
    >>> capped_shares(torch.tensor([3e3, 2e3, 1e3, 0.0]), torch.ones(4), torch.tensor([2.0]))
    tensor([1., 1., 0., 0.])
    """
    full, least = capacity <= 0, torch.finfo(logarithms.dtype).min
    while True:
        rest = logarithms.masked_fill(full, -torch.inf)
        rest = (rest - rest.amax(-1, keepdim=True).clamp(min=least)).exp()
        left = amount - capacity.where(full, 0).sum(-1, keepdim=True)
        # the greatest of the rest is 1, unless all are full
        shares = left.clamp(min=0) * rest / rest.sum(-1, keepdim=True).clamp(min=1)
        filled_up = ~full & (shares >= capacity)
        if not bool(filled_up.any()):
            return capacity.where(full, shares)
        full = full | filled_up

"""Inclusion probabilities of several picks from a pool, and draws with exactly these.

Reference: Madow, "On the theory of systematic sampling, II", Annals of Mathematical Statistics
1949.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

SUMS = 1e-9
"""Sums of capacities that differ by no more than this are equal."""


def systematic(inclusion: Tensor, sizes: Tensor, start: Tensor, keys: Tensor) -> Tensor:
    """Which places are drawn, with inclusion probabilities π exactly, by systematic sampling.

    With the places in the order of their keys and the cumulative sums c of π, place k is drawn if
    one of the points u, u + 1, … lies in [c_{k−1}, c_k). The last sum is m, whatever its rounding.

    Args:
        inclusion: π, (…, K), from 0 to 1.
        sizes: m = Σπ, (…) int64.
        start: u in [0, 1), (…).
        keys: any numbers of at least 0, (…, K).

    Returns:
        (…, K) bool, m of them true.

    >>> pi, keys = torch.tensor([0.5, 1.0, 0.5]), torch.tensor([1.0, 2.0, 3.0])
    >>> [systematic(pi, torch.tensor(2), torch.tensor(u), keys).tolist() for u in (0.1, 0.9)]
    [[True, True, False], [False, True, True]]
    """
    order = keys.masked_fill(inclusion <= 0, -1).argsort(-1)  # what cannot be drawn comes first
    sums = inclusion.gather(-1, order).cumsum(-1)
    sums[..., -1] = sizes.to(sums.dtype)
    point = torch.arange(int(sizes.max()), device=sums.device)
    points = (start[..., None] + point).to(sums.dtype)
    at = torch.searchsorted(sums, points.contiguous(), right=True) - point
    at = at.cummax(-1).values + point  # rounding draws no place twice
    drawn = (point < sizes[..., None]) & (at < sums.shape[-1])
    width = inclusion.shape[-1]
    places = order.gather(-1, at.clamp(max=width - 1)).masked_fill(~drawn, width)
    chosen = torch.zeros(*inclusion.shape[:-1], width + 1, dtype=torch.bool, device=sums.device)
    return chosen.scatter_(-1, places, True)[..., :width]


def filled(
    floor: Tensor, ceiling: Tensor, capacity: Tensor, amount: Tensor, groups: Tensor | None = None
) -> Tensor:
    """An amount that is given to the best candidates first, each up to its capacity.

    Candidates whose intervals [floor, ceiling] leave open who is better share in proportion to
    their capacities what is left of the amount when it is their turn. With capacities 1 and the
    amount m these are the inclusion probabilities of the m best.

    Args:
        floor, ceiling: the values that the index of a candidate may have, (B, N, K).
        capacity: from 0 to 1, (B, N, K).
        amount: of each pool, (B, N, 1), or of each candidate's group, (B, N, K); where it is more
            than all capacities, these are filled.
        groups: each of which has an amount of its own, (B, N, K) of at least −1; None if it is
            that of the pool.

    Returns:
        (B, N, K), from 0 to the capacity.

    >>> index = torch.tensor([[[3.0, 2.0, 2.0, 1.0]]])
    >>> filled(index, index, torch.ones(1, 1, 4), torch.tensor([[[2.0]]]))
    tensor([[[1.0000, 0.5000, 0.5000, 0.0000]]])
    """

    def total(values: Tensor) -> Tensor:
        if groups is None:
            return values.sum(2, keepdim=True)
        width = int(groups.max()) + 2
        sums = values.new_zeros(*values.shape[:2], width).scatter_add_(2, groups + 1, values)
        return sums.gather(2, groups + 1)

    floor, ceiling = (end.where(capacity > 0, -torch.inf) for end in (floor, ceiling))
    above = capacity_above(floor, capacity, ceiling, groups)  # of those that are certainly better
    level = capacity_above(ceiling, capacity, floor, groups, or_equal=True)  # of all that may be
    certain = capacity.where(level <= amount + SUMS, 0)
    open_ = capacity.where((level > amount + SUMS) & (above < amount - SUMS), 0)
    share = (amount - total(certain)) / total(open_).clamp(min=SUMS)
    return certain + open_ * share.clamp(0, 1)


def capacity_above(
    values: Tensor,
    capacity: Tensor,
    limits: Tensor,
    groups: Tensor | None = None,
    or_equal: bool = False,
) -> Tensor:
    """The capacity of those, in the group of each limit, whose value is above it, or equal to it.

    All are (B, N, K).
    """
    keys, wanted, start = -values, -limits, None
    if groups is not None:  # by group, and then by the number of all numbers that are no greater
        k = values.shape[2]
        every = torch.cat([values, limits], 2).sort(2).values
        start = (groups + 1) * (2 * k + 1)
        keys, wanted = (
            start + 2 * k - torch.searchsorted(every, one.contiguous()) for one in (values, limits)
        )
    ordered, order = keys.sort(2)
    sums = pad(capacity.gather(2, order).cumsum(2), (1, 0))
    found = sums.gather(2, torch.searchsorted(ordered, wanted.contiguous(), right=or_equal))
    return found if start is None else found - sums.gather(2, torch.searchsorted(ordered, start))


def proportional(weights: Tensor, capacity: Tensor, amount: Tensor) -> Tensor:
    """min(capacity, c·weight), with the c for which they sum to an amount.

    Args:
        weights: (…, K), not negative; 0 where the capacity is 0.
        capacity: (…, K), not negative.
        amount: (…, 1); where it is more than the capacities of positive weights, these are filled.

    >>> proportional(torch.tensor([4.0, 1.0, 1.0]), torch.ones(3), torch.tensor([2.0]))
    tensor([1.0000, 0.5000, 0.5000])
    """
    full = (weights > 0) & (capacity <= 0)
    while True:
        rest = weights.masked_fill(full, 0)
        left = amount - capacity.where(full, 0).sum(-1, keepdim=True)
        shares = left.clamp(min=0) * rest / rest.sum(-1, keepdim=True).clamp(min=1e-300)
        more = ~full & (weights > 0) & (shares >= capacity)
        if not bool(more.any()):
            return capacity.where(full, shares)
        full = full | more

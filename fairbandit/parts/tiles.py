"""Sums over windows of a group's list, scanned in tiles.

A tile is scored once by every distinct model of the rounds at hand, as a matrix product, and
compared with all the candidates of that model together. Masks are needed only where windows begin
or end. Memory is used again and again, since new memory is slow at first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from fairbandit.maths.buffers import Scratch
from fairbandit.parts.model import RewardModel
from fairbandit.parts.seats import Bounds, Edge, Seats
from fairbandit.parts.store import Store

TILE = 1 << 18
"""About how many scores a tile holds, so that they stay in cache."""

SEATS = 4
"""So many candidates of a model are compared at a time, so that the comparisons stay in cache."""

AddUp = Callable[[Tensor, list[Edge]], Tensor]
"""Sums over (B, U, L) scores, of which edges say where some do not count: (B, U, S)."""

_scores, _below = Scratch(), Scratch()


def scan(
    store: Store,
    model: RewardModel,
    seats: Seats,
    add_up: AddUp,
    stretch: tuple[int, int] = (0, 0),
) -> Tensor:
    """Sums over each seat's window less those over a stretch, (B, U, S).

    Args:
        store: the contexts.
        model: the U reward models.
        seats: what is asked about.
        add_up: sums over a tile's scores.
        stretch: start and stop of what is left out, the same if there is none.
    """
    b, (_, u, s) = len(model.parameters[0]), seats.start.shape
    sums = torch.zeros(b, u, s, dtype=torch.float64, device=seats.start.device)
    tiles = list(_tiles(seats.bounds, stretch, TILE // (b * u)))
    if not tiles:
        return sums
    first = min(low for low, _, _ in tiles)
    last = max(high for _, high, _ in tiles)
    score = _scoring(store, model, seats.group, first, last)
    for low, high, inside in tiles:
        found = add_up(score(low, high), seats.edges(low, high, inside))
        sums.add_(found, alpha=1 if inside else -1)
    return sums


def counting(values: Tensor) -> AddUp:
    """Counts the scores that are at most the values, (B, U, S), NaN where nothing is asked.

    Numbers are several times as fast to make and to add up as booleans.
    """
    counts = torch.empty_like(values, memory_format=torch.contiguous_format)
    b, u, _ = values.shape
    seats = values.unsqueeze(3).split(SEATS, 2), counts.split(SEATS, 2)
    lots = list(zip(*seats, strict=True))

    def add_up(scores: Tensor, edges: list[Edge]) -> Tensor:
        every, length = scores.unsqueeze(2), scores.shape[2]
        for at, (asked, found) in enumerate(lots):
            memory = _below.empty((b, u, asked.shape[2], length), values)
            below = torch.le(every, asked, out=memory)
            for part, mask in edges:
                below[..., part].mul_(mask[:, :, at * SEATS : (at + 1) * SEATS])
            torch.sum(below, -1, out=found)
        return counts

    return add_up


def _scoring(
    store: Store, model: RewardModel, group: int, first: int, last: int
) -> Callable[[int, int], Tensor]:
    """Scores entries low+1 … high of a group under every model, (B, U, L), until the next call.

    Args:
        store: the contexts.
        model: the U models.
        group: whose entries.
        first, last: all that are asked for are among entries first+1 … last.
    """
    theta, lists = model.theta, store.lists
    if theta is None or lists is None:
        contexts = store.entries(group, first, last)
    else:
        contexts, theta = lists.kept(group, first, last), lists.columns.pick_of(group, theta)
    if theta is None:
        groups = torch.full(contexts.shape[:2], group, device=contexts.device)[:, None]
        return lambda low, high: model.score(
            contexts[:, None, low - first : high - first], groups[:, :, low - first : high - first]
        )
    b, u, _ = theta.shape
    columns = contexts.transpose(1, 2)

    def score(low: int, high: int) -> Tensor:
        tile = columns[:, :, low - first : high - first]
        return torch.bmm(theta, tile, out=_scores.empty((b, u, high - low), theta))

    return score


def _tiles(bounds: Bounds, stretch: tuple[int, int], size: int) -> Iterator[tuple[int, int, bool]]:
    """Entries low+1 … high to be scanned for sums over windows less a stretch.

    Args:
        bounds: of the windows.
        stretch: start and stop of the stretch; equal if there is none.
        size: about how many entries a tile may have.

    Yields:
        low, high, and which of these entries count: True, those in a seat's window; False, those
        of the stretch that are outside it, and they count against.
    """
    first, latest, earliest, last = bounds
    start, stop = stretch
    parts = [(first, last, True)]
    if start < stop:
        parts = [(first, min(start, last), True), (max(stop, first), last, True)]
        common = max(start, latest), min(stop, earliest)  # in the stretch and in every window
        if common[0] >= common[1]:
            common = start, start
        parts += [(start, common[0], False), (common[1], stop, False)]
    size = max(64, size)
    for low, high, inside in parts:
        if low < high:
            step = -(-(high - low) // -(-(high - low) // size))
            for begin in range(low, high, step):
                yield begin, min(begin + step, high), inside

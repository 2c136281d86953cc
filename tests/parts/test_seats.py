"""Every candidate has one seat of its own group and model, and finds its answer there."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fairbandit.parts.seats import Bounds, Seating, Seats

SIZES = st.tuples(st.integers(1, 3), st.integers(1, 6), st.integers(1, 4), st.integers(1, 3))


class Room:
    """Candidates of B replicas, N rounds and K places, G groups and U models, drawn at random."""

    def __init__(self, seed: int, sizes: tuple[int, int, int, int], models: int) -> None:
        draws = np.random.default_rng(seed)
        b, n, k, g = self.sizes = sizes
        self.groups = torch.from_numpy(draws.integers(-1, g, (b, n, k)))
        self.of_round = torch.from_numpy(np.sort(draws.integers(0, models, n)))
        start = np.sort(draws.integers(0, 20, (b, n, g)), axis=1)
        stop = np.maximum(start, np.sort(draws.integers(0, 40, (b, n, g)), axis=1))
        self.start, self.stop = torch.from_numpy(start), torch.from_numpy(stop)
        ends = ((start.min((0, 1)), start.max((0, 1))), (stop.min((0, 1)), stop.max((0, 1))))
        self.bounds = [Bounds(*(int(e[a]) for part in ends for e in part)) for a in range(g)]
        self.models = models

        windows = self.start, self.stop, self.bounds
        self.seating = Seating(self.groups, self.of_round, models, *windows)
        # every candidate's number, from 1
        self.numbers = torch.arange(1.0, b * n * k + 1, dtype=torch.float64).view(b, n, k)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32 - 1), SIZES, st.integers(1, 4))
def test_every_candidate_has_one_seat(
    seed: int, sizes: tuple[int, int, int, int], models: int
) -> None:
    room = Room(seed, sizes, models)
    b, n, k, _ = sizes
    placed = room.seating.place(room.numbers)
    found = [seats.group for seats in room.seating.seats]
    assert found == sorted({g for g in room.groups.unique().tolist() if g >= 0})
    seated = []
    for seats, numbers in zip(room.seating.seats, placed, strict=True):
        assert numbers.shape == seats.start.shape == seats.stop.shape
        assert numbers.shape[:2] == (b, models)
        for (r, u, s), number in np.ndenumerate(numbers.numpy()):
            if np.isnan(number):
                continue
            replica, t, a = np.unravel_index(int(number) - 1, (b, n, k))
            own = int(room.of_round[t]), int(room.groups[r, t, a])
            assert (int(replica), *own) == (r, u, seats.group)
            assert float(seats.start[r, u, s]) == int(room.start[r, t, seats.group])
            assert float(seats.stop[r, u, s]) == int(room.stop[r, t, seats.group])
            seated.append(number)
        assert int((~numbers.isnan()).sum(2).max()) == numbers.shape[2]  # no more than are needed
    assert sorted(seated) == room.numbers[room.groups >= 0].tolist()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), SIZES, st.integers(1, 4))
def test_what_is_placed_is_collected(
    seed: int, sizes: tuple[int, int, int, int], models: int
) -> None:
    room = Room(seed, sizes, models)
    collected = room.seating.collect(room.seating.place(room.numbers))
    assert torch.equal(collected, room.numbers.where(room.groups >= 0, 0))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), SIZES, st.integers(1, 4), st.integers(0, 40), st.integers(1, 20))
def test_edges(
    seed: int, sizes: tuple[int, int, int, int], models: int, low: int, length: int
) -> None:
    """Tiles that lie between the first start and the last stop, and any where outside counts."""
    room, high = Room(seed, sizes, models), low + length

    def counted(seats: Seats, low: int, high: int, inside: bool) -> Tensor:
        """1 for the entries that count for each seat, those that no edge has among them."""
        mask = torch.ones(*seats.start.shape, high - low, dtype=torch.float64)
        for part, edge in seats.edges(low, high, inside):
            assert 0 <= part.start < part.stop <= high - low
            mask[..., part] = edge
        return mask

    for seats, taken in zip(room.seating.seats, room.seating.place(room.numbers), strict=True):
        first, last = max(low, seats.bounds.first), min(high, seats.bounds.last)
        inside = counted(seats, first, last, inside=True) if first < last else None
        outside = counted(seats, low, high, inside=False)
        for seat in map(tuple, (~taken.isnan()).nonzero().tolist()):
            start, stop = (int(end[seat]) for end in (seats.start, seats.stop))
            held = [float(start <= entry < stop) for entry in range(low, high)]
            assert outside[seat].tolist() == [1 - share for share in held]
            if inside is not None:
                assert inside[seat].tolist() == held[first - low : last - low]

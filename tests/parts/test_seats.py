"""Every candidate has one seat of its own group and model, and finds its answer there."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fairbandit.parts.seats import Bounds, Seats, seatings

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

    def seatings(self) -> dict[int, Seats]:
        given = self.groups, self.of_round, self.models, self.start, self.stop, self.bounds
        return dict(seatings(*given))


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32 - 1), SIZES, st.integers(1, 4))
def test_every_candidate_has_one_seat(
    seed: int, sizes: tuple[int, int, int, int], models: int
) -> None:
    room = Room(seed, sizes, models)
    b, n, k, _ = sizes
    found = room.seatings()
    assert sorted(found) == sorted({g for g in room.groups.unique().tolist() if g >= 0})
    for group, seats in found.items():
        u, s = seats.shape
        assert u == models
        nowhere, fullest = u * s, 0
        for r in range(b):
            taken = list[int]()
            for number in range(n * k):
                t, a = divmod(number, k)
                seat = int(seats.seat[r, number])
                if int(room.groups[r, t, a]) != group:
                    assert seat == nowhere
                    continue
                assert seat // s == int(room.of_round[t])
                assert float(seats.start[r].flatten()[seat]) == int(room.start[r, t, group])
                assert float(seats.stop[r].flatten()[seat]) == int(room.stop[r, t, group])
                taken.append(seat)
            assert len(set(taken)) == len(taken)
            fullest = max(fullest, *np.bincount([seat // s for seat in taken], minlength=u))
        assert fullest == s  # no more seats than are needed


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), SIZES, st.integers(1, 4))
def test_what_is_placed_is_collected(
    seed: int, sizes: tuple[int, int, int, int], models: int
) -> None:
    room = Room(seed, sizes, models)
    values = torch.arange(1.0, room.groups.numel() + 1, dtype=torch.float64)
    values = values.view(room.groups.shape)
    total = torch.zeros_like(values)
    for group, seats in room.seatings().items():
        placed = seats.place(values)
        own = values[room.groups == group].sort().values
        assert torch.equal(placed[~placed.isnan()].sort().values, own)  # and NaN elsewhere
        seats.collect(placed, total)
    assert torch.equal(total, values.where(room.groups >= 0, 0))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), SIZES, st.integers(1, 4), st.integers(0, 40), st.integers(1, 20))
def test_windows(
    seed: int, sizes: tuple[int, int, int, int], models: int, low: int, length: int
) -> None:
    """Every tile that may be asked about: one that lies before the last stop, of any start."""
    room = Room(seed, sizes, models)
    for group, seats in room.seatings().items():
        high = min(low + length, room.bounds[group].last)
        if high <= low:
            continue
        inside, outside = (seats.window(low, high, wanted) for wanted in (True, False))
        for seat in _taken(seats):
            start, stop = (int(end.flatten(1)[seat]) for end in (seats.start, seats.stop))
            truth = [float(start <= entry < stop) for entry in range(low, high)]
            assert inside.flatten(1, 2)[seat].tolist() == truth
            assert outside.flatten(1, 2)[seat].tolist() == [1 - share for share in truth]


def _taken(seats: Seats) -> list[tuple[int, int]]:
    """The replica and number of every seat that someone sits on."""
    u, s = seats.shape
    rows: Tensor = seats.seat
    return [(b, seat) for b, own in enumerate(rows.tolist()) for seat in own if seat < u * s]

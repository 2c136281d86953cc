"""Every value has a slot of its own among those of its group and model."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairbandit.counting.scan import Layout, Limits, _chunks

SIZES = st.tuples(st.integers(1, 3), st.integers(1, 6), st.integers(1, 4), st.integers(1, 3))


class Case:
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
        self.limits = [Limits(*(int(e[a]) for part in ends for e in part)) for a in range(g)]
        self.models = models

        windows = self.start, self.stop, self.limits
        self.layout = Layout(self.groups, self.of_round, models, *windows)
        # every candidate's number, from 1
        self.numbers = torch.arange(1.0, b * n * k + 1, dtype=torch.float64).view(b, n, k)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32 - 1), SIZES, st.integers(1, 4))
def test_every_value_has_one_slot(seed: int, sizes: tuple[int, int, int, int], models: int) -> None:
    case = Case(seed, sizes, models)
    b, n, k, _ = sizes
    placed = case.layout.place(case.numbers)
    found = [slots.group for slots in case.layout.slots]
    assert found == sorted({g for g in case.groups.unique().tolist() if g >= 0})
    numbered = []
    for slots, numbers in zip(case.layout.slots, placed, strict=True):
        assert numbers.shape == slots.start.shape == slots.stop.shape
        assert numbers.shape[:2] == (b, models)
        for (r, u, s), number in np.ndenumerate(numbers.numpy()):
            if np.isnan(number):
                continue
            replica, t, a = np.unravel_index(int(number) - 1, (b, n, k))
            own = int(case.of_round[t]), int(case.groups[r, t, a])
            assert (int(replica), *own) == (r, u, slots.group)
            assert float(slots.start[r, u, s]) == int(case.start[r, t, slots.group])
            assert float(slots.stop[r, u, s]) == int(case.stop[r, t, slots.group])
            numbered.append(number)
        assert int((~numbers.isnan()).sum(2).max()) == numbers.shape[2]  # no more than are needed
    assert sorted(numbered) == case.numbers[case.groups >= 0].tolist()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), SIZES, st.integers(1, 4))
def test_what_is_placed_is_collected(
    seed: int, sizes: tuple[int, int, int, int], models: int
) -> None:
    case = Case(seed, sizes, models)
    collected = case.layout.collect(case.layout.place(case.numbers))
    assert torch.equal(collected, case.numbers.where(case.groups >= 0, 0))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    SIZES,
    st.integers(1, 4),
    st.tuples(st.integers(0, 40), st.integers(0, 40)),
    st.sampled_from([1, 7, 64]),
)
def test_windows_minus_a_segment(
    seed: int,
    sizes: tuple[int, int, int, int],
    models: int,
    segment: tuple[int, int],
    size: int,
) -> None:
    """Chunks are in order, masks are made where windows differ, and all adds up for every slot."""
    case = Case(seed, sizes, models)
    for slots, taken in zip(case.layout.slots, case.layout.place(case.numbers), strict=True):
        counts, latest = torch.zeros(*slots.start.shape, 40, dtype=torch.float64), 0
        for low, high, counted, every in _chunks(slots.limits, segment, size):
            assert latest <= low < high <= low + size
            mask = torch.ones(1) if every else slots.window(low, high)
            if counted:
                mask = -mask if every else mask - 1
            counts[..., low:high] = mask
            latest = high
        for slot in map(tuple, (~taken.isnan()).nonzero().tolist()):
            start, stop = (int(end[slot]) for end in (slots.start, slots.stop))
            for entry in range(40):
                held = segment[0] <= entry < segment[1]
                assert int(counts[slot][entry]) == (start <= entry < stop) - held

"""The four ways that can be forced count alike, each by its own means; so does a choice by cost."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairbandit import FairbanditError
from fairbandit.counting import Contexts, PastScores, forced
from fairbandit.counting.choice import SORT, Choice, Way, Work, choose_way, forced_way
from fairbandit.counting.dense import DenseScores
from fairbandit.counting.scan import Windows
from fairbandit.history.sorted_segment import SortedSegment
from tests.counting.test_against_dense import Weights, ask, pools, ways

WAYS: tuple[Way, ...] = get_args(Way)

NOTHING_IN_COMMON = "the windows of the rounds have no entry in common"


@contextmanager
def refused() -> Iterator[None]:
    """Takes the refusal to sort, and no other error."""
    try:
        yield
    except FairbanditError as error:
        if NOTHING_IN_COMMON not in str(error):
            raise


@settings(max_examples=100)
@given(seed=st.integers(0, 2**32 - 1), b=st.integers(1, 3), small=st.booleans())
def test_four_ways_count_alike_in_random_windows(seed: int, b: int, small: bool) -> None:
    """Sorting is refused where windows with entries have none in common, and only there."""
    draws = np.random.default_rng(seed)
    d, k, groups, n = (int(draws.integers(1, high)) for high in (5, 5, 4, 20))
    most = [None, 3, 30][int(draws.integers(3))]
    x, members = pools(draws, b, n + int(draws.integers(60)), k, d, groups)
    value = Contexts.empty(x[:, :0, 0], groups, most).append(x, members)
    for _ in range(3):  # later windows find the sorted segment of earlier ones
        asked, values = ask(draws, value, 0, n, "linear")
        counts, past = dict[Way, Any](), PastScores(value, *asked)
        starts, stops = asked[1]
        held, empty = value.memory.sorted, not past.count.any()
        fresh = held is not None and held.spent <= SORT * b * held.length
        for way in WAYS:
            refusing = refused() if way == "sorted" else nullcontext()
            with ways(small=small), forced(way), refusing:
                counts[way] = PastScores(value, *asked).count_le(values)
        if fresh or empty or (b == 1 and most is None):
            common = bool((members[0, starts[-1] : stops[0]] >= 0).any())
            assert ("sorted" in counts) == (fresh or empty or common)
        assert all(torch.equal(found, counts["dense"]) for found in counts.values())


def past_of(x: torch.Tensor, n: int = 1) -> PastScores:
    """Half of the rounds before each of the last n, in one group, and one value a round."""
    zeros, t = torch.zeros(x.shape[:3], dtype=torch.int64), x.shape[1]
    value = Contexts.empty(x[:, :0, 0], 1).append(x, zeros)
    stops = np.arange(t - n, t)
    model = Weights(torch.ones(len(x), 1, x.shape[3]).double())
    groups = torch.zeros(len(x), n, 1, dtype=torch.int64)
    window = np.stack([stops // 2, stops])
    return PastScores(value, np.arange(t - n + 1, t + 1), window, groups, model, groups[0, :, 0])


@pytest.mark.parametrize("b", [1, 2])
def test_each_way_counts_by_its_own_means(b: int, monkeypatch: pytest.MonkeyPatch) -> None:
    used = Counter[str]()

    def spied(place: Any, name: str, way: str) -> None:
        function = getattr(place, name)

        def spy(*given: Any) -> Any:
            used[way] += 1
            return function(*given)

        monkeypatch.setattr(place, name, spy)

    spied(DenseScores, "count_le", "dense")
    spied(PastScores, "_count_slices", "sliced")
    spied(Windows, "sum", "scanned")
    spied(SortedSegment, "count_le", "sorted")
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(b, 40, 3, 2)))
    for way in WAYS:
        used.clear()
        with forced(way):
            past_of(x).count_le(torch.zeros(b, 1, 1).double())
        assert used[way] == 1
        assert set(used) - {"sliced", "scanned"} <= {way}  # they count outside the segment


def test_forcing_ends_with_its_block_and_is_of_its_thread() -> None:
    with forced("dense"):
        with ThreadPoolExecutor(1) as other, forced("sorted"):
            assert forced_way() == "sorted"
            assert other.submit(forced_way).result() is None
        assert forced_way() == "dense"
        with pytest.raises(FairbanditError, match="a fault"), forced("sorted"):
            raise FairbanditError("a fault")
        assert forced_way() == "dense"
    assert forced_way() is None
    expected = "one of dense, sliced, scanned, sorted; got 'fast'"
    with pytest.raises(FairbanditError, match=expected), forced("fast"):  # type: ignore[arg-type]
        pass


def test_sorting_that_is_forced_and_not_possible_is_refused() -> None:
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(1, 40, 3, 2)))
    zeros = torch.zeros(1, 30, 1).double()
    with forced("sorted"):
        with pytest.raises(FairbanditError, match=NOTHING_IN_COMMON):
            past_of(x, 30).count_le(zeros)
        with pytest.raises(FairbanditError, match="contexts are too large"):
            past_of(1e300 * x).count_le(zeros[:, :1])
        assert past_of(x[:, :1]).count_le(zeros[:, :1]).tolist() == [[[0]]]  # an empty window


class Held(SortedSegment):
    """A sorted segment of 1000 entries that has saved and spent something."""

    def __init__(self, saved: float, spent: float) -> None:
        self.length, self.saved, self.spent = 1000, saved, spent


FEW, MANY = Work(None, 1e3, 10, 1, 2, 20), Work(None, 1e7, 10, 1, 2, 20)

FRESH, SPENT, PAID = Held(0, 0), Held(2e5, 1.5e5), Held(4e5, 1.5e5)


@pytest.mark.parametrize(
    ("work", "held", "not_worth", "way", "searched", "new"),
    [
        (FEW._replace(scores=50_000), FRESH, 0, "sliced", None, None),
        (FEW._replace(values=60), FRESH, 0, "scanned", None, None),
        (FEW, FRESH, 2e5, "scanned", None, None),
        (FEW, FRESH, 0, "scanned", FRESH, False),
        (MANY, None, 0, "scanned", None, True),
        (MANY, None, 2e7, "scanned", None, None),
        (MANY, FRESH, 0, "scanned", FRESH, False),
        (MANY, SPENT, 0, "scanned", None, False),
        (MANY, PAID, 0, "scanned", None, True),
        (MANY, Held(4e5, 0.5e5), 0, "scanned", True, True),
        (MANY._replace(scores=1_000_000), None, 0, "sliced", None, True),
        (MANY._replace(scores=10_000_000), None, 0, "scanned", None, True),
    ],
)
def test_the_choice_by_cost(
    work: Work, held: Any, not_worth: float, way: str, searched: Any, new: bool | None
) -> None:
    chosen = choose_way(work, held, not_worth)
    assert isinstance(chosen, Choice)
    assert chosen.way == way
    assert (chosen.search, chosen.sort) == (searched is not None, bool(new))
    assert chosen.budget < chosen.cost < float("inf")


def test_the_cost_of_slices_is_compared_with_the_cost_of_sorting() -> None:
    """A scan of the same windows would cost 10,150,000, and sorting would seem to pay."""
    work = MANY._replace(scores=1_000_000)
    held = Held(0.0, 0.0)
    assert work.direct == ("sliced", 150 * 10 + 1.5 * 1_000_000 + 0.25 * 1e7)
    assert choose_way(work, held, 0).budget == work.direct[1] - 1200 * (400 / 20 + 10)

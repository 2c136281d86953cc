"""The fast store answers every query as the dense reference does."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fairbandit import FairbanditError
from fairbandit.counting import ContextStore, DenseStore, PastScores, Query, ScoringModel
from fairbandit.counting import scan as scan_module
from fairbandit.counting import sorted_segment as sorted_module
from fairbandit.counting import store as store_module
from fairbandit.counting.sorted_segment import Asked, Costs


def free(asked: Asked, width: int, chunked: bool) -> Costs:
    """As if searching cost nothing beside a scan, and sorting little."""
    return Costs(entry=1.0, again=1e-9, search=0.0, sort=0.6)


class Weights:
    """Linear models, with their weights or without: score(x) = ⟨θ, x⟩ in either case."""

    def __init__(self, theta: Tensor, *, shown: bool) -> None:
        self._theta = theta
        self.theta = theta if shown else None

    def __len__(self) -> int:
        return self._theta.shape[1]

    def of_features(self, features: Tensor) -> "Weights | None":
        return Weights(self._theta[..., features], shown=False)

    def score(self, contexts: Tensor, groups: Tensor) -> Tensor:
        return (contexts * self._theta[:, :, None]).sum(-1)


class OfGroups(Weights):
    """Models that are not linear, and differ between groups."""

    def __init__(self, theta: Tensor) -> None:
        super().__init__(theta, shown=False)

    def of_features(self, features: Tensor) -> None:
        return None

    def score(self, contexts: Tensor, groups: Tensor) -> Tensor:
        return super().score(contexts, groups).abs() * (1 + groups % 2) - groups


class Pools(NamedTuple):
    """Pools of T rounds, contexts (B, T, K, d) and groups (B, T, K), of few whole numbers."""

    contexts: Tensor
    groups: Tensor


def pools(draws: np.random.Generator, b: int, rounds: int, k: int, d: int, groups: int) -> Pools:
    """Many ties, empty places, a rare group, and features that some groups never have."""
    shares = draws.dirichlet([0.7] * (groups + 1), size=())
    members = torch.from_numpy(draws.choice(np.arange(-1, groups), p=shares, size=(b, rounds, k)))
    if draws.random() < 0.5:
        members = members[:1].expand(b, -1, -1)  # all replicas have the same groups
    contexts = torch.from_numpy(draws.integers(-2, 3, (b, rounds, k, d)).astype(float))
    absent = torch.from_numpy(draws.random((groups + 1, d)) < 0.5)
    return Pools(contexts.masked_fill(absent[members], 0), members)


@contextmanager
def ways(small: bool, gathered: bool, searched: bool) -> Iterator[None]:
    """Lets the fast store use small chunks, gather round by round, and sort wherever it can."""
    with pytest.MonkeyPatch.context() as patch:
        if small:
            patch.setattr(scan_module, "CHUNK", 8)
        patch.setattr(store_module, "FEW", 10**9 if gathered else 0)
        if searched:
            patch.setattr(sorted_module, "SHORTEST", 4)
            patch.setattr(sorted_module.Costs, "of", free)
        yield


def model_of(draws: np.random.Generator, kind: str, b: int, u: int, d: int) -> ScoringModel:
    theta = torch.from_numpy(draws.integers(-2, 3, (b, u, d)).astype(float))
    return OfGroups(theta) if kind == "of groups" else Weights(theta, shown=kind == "linear")


def alike(fast: PastScores, dense: PastScores, values: Tensor) -> None:
    """All answers are equal: sums of whole numbers are exact in any order."""
    assert torch.equal(fast.count, dense.count)
    assert torch.equal(fast.count_le(values), dense.count_le(values))
    for ages in (False, True):

        def f(old: Tensor, own: Tensor, *age: Tensor) -> Tensor:
            return (old - own) ** 2 + (3 * age[0] if age else 0)

        assert torch.equal(fast.sum(f, values, ages=ages), dense.sum(f, values, ages=ages))
    for one in (fast, dense):
        assert torch.equal(one.sum(lambda old, age: age >= 1, ages=True), fast.count)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    b=st.integers(1, 3),
    groups=st.integers(1, 4),
    kind=st.sampled_from(["linear", "linear", "hidden", "of groups"]),
    memory=st.sampled_from([None, None, 1, 5, 40]),
    how=st.tuples(st.booleans(), st.booleans(), st.booleans()),
)
def test_the_same_answers(
    seed: int, b: int, groups: int, kind: str, memory: int | None, how: tuple[bool, bool, bool]
) -> None:
    """Through rounds in blocks, with forgetting, saving and new groups between them."""
    draws = np.random.default_rng(seed)
    d, k = int(draws.integers(1, 5)), int(draws.integers(1, 5))
    grow = int(draws.integers(0, 2))
    every = pools(draws, b, 120, k, d, groups + grow)
    empty = torch.empty(b, 0, d, dtype=torch.float64)
    known = groups + grow * (draws.random() < 0.5)
    fast, dense = ContextStore(empty, known, memory), DenseStore(empty, known, memory)
    whole = memory is not None and draws.random() < 0.5  # windows over all rounds
    played = start = 0
    while played < 120:
        n = min(int(draws.integers(1, 40)), 120 - played)
        block = Pools(*(part[:, played : played + n] for part in every))
        if int(block.groups.max()) >= known:
            known += 1
            fast.grow(known)
        for store in (fast, dense):
            store.append(*block)
        moves = np.sort(draws.integers(start, played + 1, n))
        if whole:
            moves[:] = 0
        stop = np.maximum(moves, np.minimum(np.arange(played, played + n), draws.integers(0, 121)))
        u = int(draws.integers(1, n + 1))
        query = Query(
            played + 1,
            torch.from_numpy(moves),
            torch.from_numpy(stop),
            model_of(draws, kind, b, u, d),
            torch.from_numpy(np.sort(draws.integers(0, u, n))),
        )
        asked = torch.from_numpy(draws.integers(-1, known, (b, n, 3)))
        values = torch.from_numpy(draws.integers(-6, 7, (b, n, 3)).astype(float))
        with ways(*how):
            both = [store.past_scores(query, asked) for store in (fast, dense)]
            alike(both[0], both[1], values)
        played += n
        start = max(start, int(moves[-1]))
        if draws.random() < 0.7:
            fast.forget(start)
        if draws.random() < 0.2:
            again = ContextStore(empty, known, memory)
            again.load_state(fast.state())
            fast = again


def test_what_the_reference_counts() -> None:
    """A pool by hand: 2 replicas, one feature that is the score, groups 0 and 1."""
    scores = torch.tensor([[[1.0, 2.0, 9.0], [2.0, 3.0, 9.0]], [[5.0, 9.0, 6.0], [9.0, 7.0, 8.0]]])
    members = torch.tensor([[[0, 0, -1], [0, 1, -1]], [[0, -1, 0], [-1, 1, 1]]])
    one, zero = torch.ones(2, 1, 1, dtype=torch.float64), torch.zeros(1, dtype=torch.int64)
    query = Query(3, zero, zero + 2, Weights(one, shown=True), zero)
    asked, values = torch.tensor([[[0, 1, -1]]] * 2), torch.tensor([[[2.0, 2.0, 2.0]]] * 2).double()
    for memory, count, below, total, age in (
        (None, [[3, 1, 0], [2, 2, 0]], [[3, 0, 0], [0, 0, 0]], [[5, 3, 0], [11, 15, 0]], [5, 4]),
        (1, [[1, 1, 0], [1, 1, 0]], [[1, 0, 0], [0, 0, 0]], [[2, 3, 0], [6, 8, 0]], [1, 2]),
    ):
        dense = DenseStore(torch.empty(2, 0, 1).double(), 2, memory)
        dense.append(scores.double()[..., None], members)
        past = dense.past_scores(query, asked)
        assert past.count[:, 0].tolist() == count
        assert past.count_le(values)[:, 0].tolist() == below
        assert past.sum(lambda old: old)[:, 0].tolist() == total
        assert past.sum(lambda old, age: age, ages=True)[:, 0, 0].tolist() == age


@pytest.mark.parametrize("rare", [0.002, 0.3])
def test_many_replicas_of_a_rare_group(rare: float) -> None:
    """Windows of different replicas need not overlap at all; the segment is sorted anyway."""
    draws = np.random.default_rng(0)
    empty = torch.empty(30, 0, 2, dtype=torch.float64)
    stores = ContextStore(empty, 2), ContextStore(empty, 2)
    theta, sorted_once = torch.from_numpy(draws.normal(size=(30, 1, 2))), False
    for at in range(0, 2000, 100):
        x = torch.from_numpy(draws.normal(size=(30, 100, 2, 2)))
        s = torch.from_numpy((draws.random((30, 100, 2)) < rare).astype(np.int64))
        near = theta + 1e-3 * torch.from_numpy(draws.normal(size=(30, 100, 2)))
        model = Weights(near, shown=True)
        start, stop = torch.arange(at, at + 100) // 2, torch.arange(at, at + 100)
        counts = []
        for store, searched in zip(stores, (True, False), strict=True):
            store.append(x, s)
            query = Query(at + 1, start, stop, model, torch.arange(100))
            with ways(small=False, gathered=False, searched=searched):
                if not searched:
                    store.recover()  # gives the sorted segment up
                values = (x * near[:, :, None]).sum(-1)
                counts.append(store.past_scores(query, s).count_le(values))
            store.forget(int(start[-1]))
        sorted_once |= bool(stores[0]._sorted.segments)
        assert torch.equal(*counts)
    assert sorted_once


@pytest.mark.parametrize("memory", [None, 30])
def test_memory_is_flat(memory: int | None) -> None:
    """With a bounded memory also where windows start at round 0, and where a group is rare."""
    draws = np.random.default_rng(0)
    store, sizes = ContextStore(torch.empty(1, 0, 3).double(), 3, memory), []
    for at in range(0, 4000, 100):
        groups = torch.from_numpy((draws.random((1, 100, 4)) < 0.1).astype(np.int64))
        groups[0, 50, 0] = 2 if at == 0 else 0
        store.append(torch.ones(1, 100, 4, 3).double(), groups)
        store.forget(0 if memory is not None else at)
        state = store.state()
        sizes.append(
            sum(part.numel() for parts in (state["contexts"], state["rounds"]) for part in parts)
        )
    assert max(sizes[10:]) == (4 * (30 + 30 + 1) if memory is not None else max(sizes[10:]))
    assert max(sizes[10:]) <= 4 * 4 * 110


def test_windows_of_forgotten_rounds_are_refused() -> None:
    store = ContextStore(torch.empty(1, 0, 1).double(), 1)
    store.append(torch.ones(1, 9, 1, 1).double(), torch.zeros(1, 9, 1, dtype=torch.int64))
    store.forget(4)
    model, zero = Weights(torch.ones(1, 1, 1).double(), shown=True), torch.zeros(1).long()
    group = torch.zeros(1, 1, 1, dtype=torch.int64)
    assert float(store.past_scores(Query(10, zero + 4, zero + 9, model, zero), group).count) == 5
    with pytest.raises(FairbanditError, match="starts at round 4, and rounds 1 to 4 are forgotten"):
        store.past_scores(Query(10, zero + 3, zero + 9, model, zero), group)

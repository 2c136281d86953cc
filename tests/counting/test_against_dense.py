"""The fast counts are those of the dense reference, whatever happens to the values in between."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fairbandit.counting import Contexts, PastScores, scan, scores
from fairbandit.estimators.base import RewardModel
from fairbandit.estimators.ties import Approximate
from fairbandit.history import contexts, sorted_segment
from tests.counting.dense import DenseContexts, DensePastScores


class Weights(RewardModel):
    """Linear models, with their weights or without: score(x) = ⟨θ, x⟩ in either case."""

    theta: Tensor | None = None

    def __init__(self, theta: Tensor, *, shown: bool = True) -> None:
        super().__init__(theta)
        self.theta = theta if shown else None

    def _score(self, contexts: Tensor, groups: Tensor) -> Tensor:
        return (contexts * self.parameters[0][:, :, None]).sum(-1)

    def _bounds(self, contexts: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
        score = self.score(contexts, groups)
        return score - groups, score + 2 * groups


class OfGroups(Weights):
    """Models that are not linear, and differ between groups."""

    def _score(self, contexts: Tensor, groups: Tensor) -> Tensor:
        return super()._score(contexts, groups).abs() * (1 + groups % 2) - groups


@contextmanager
def ways(small: bool = False, sliced: bool | None = None, searched: bool = False) -> Iterator[None]:
    """Counts in small chunks, slices always or never, and sorts wherever it can."""
    with pytest.MonkeyPatch.context() as patch:
        if small:
            patch.setattr(scan, "CHUNK", 8)
            patch.setattr(scan, "MOST", 64)
            patch.setattr(sorted_segment, "CHUNK", 8)
            patch.setattr(sorted_segment, "MOST", 8)
        if sliced is not None:
            patch.setattr(scores, "SCAN", 1e12 if sliced else -1e-9)
            patch.setattr(scores, "SCAN_GROUP", 0)
        if sliced is not None or searched:
            patch.setattr(scores, "SLICE", math.inf if sliced is False else 0)
        if searched:
            patch.setattr(scores, "SORTED_COST", 0)
            patch.setattr(scores, "SEARCH", 0.0)
            patch.setattr(scores, "RESCORE", 1e-9)
            patch.setattr(scores, "SORT", 0.1)
        yield


def pools(draws: np.random.Generator, b: int, rounds: int, k: int, d: int, groups: int) -> Any:
    """Contexts (B, T, K, d) of few whole numbers, with many ties, and groups, one of them rare."""
    shares = draws.dirichlet([0.7] * (groups + 1), size=())
    members = torch.from_numpy(draws.choice(np.arange(-1, groups), p=shares, size=(b, rounds, k)))
    if draws.random() < 0.5:
        members = members[:1].repeat(b, 1, 1)  # all replicas have the same groups
    return torch.from_numpy(draws.integers(-2, 3, (b, rounds, k, d)).astype(float)), members


def ask(draws: np.random.Generator, dense: Any, start: int, n: int, kind: str) -> Any:
    """Arguments of past scores in the last n rounds, whose windows start no earlier, and values."""
    (b, _, d), last = dense.past[0].shape, dense.rounds
    first, u = last - n + 1, int(draws.integers(1, n + 1))
    long = draws.random() < 0.5  # windows that have most rounds in common
    starts = np.sort(draws.integers(start, (start + first + 1) // 2 if long else first, n))
    stops = (
        np.arange(first - 1, last)
        if long
        else np.maximum(starts, np.minimum(np.arange(first - 1, last), draws.integers(0, last + 1)))
    )
    theta = torch.from_numpy(draws.integers(-2, 3, (b, u, d)).astype(float))
    model = (
        OfGroups(theta, shown=False)
        if kind == "of groups"
        else Weights(theta, shown=kind == "linear")
    )
    groups = torch.from_numpy(draws.integers(-1, dense.groups, (b, n, 3)))
    if draws.random() < 0.5:
        groups = groups[:1].expand(b, -1, -1)
    values = torch.from_numpy(draws.integers(-6, 7, (b, n, 3)).astype(float))
    values[draws.random((b, n, 3)) < 0.05] = torch.nan
    return (
        np.arange(first, last + 1),
        np.stack([starts, stops]),
        groups,
        model,
        np.sort(draws.integers(0, u, n)),
    ), values


def same_answers(fast: Contexts, dense: DenseContexts, asked: Any, values: Tensor) -> None:
    """Sums of whole numbers are exact in any order."""
    given: Any = (*asked, Approximate(values, 0.5))
    past = PastScores(fast, *given)
    judge = DensePastScores(dense, *given)
    assert all(map(torch.equal, answers(past, values), answers(judge, values)))
    torch.testing.assert_close(past.moments, judge.moments, equal_nan=True)


def answers(past: PastScores | DensePastScores, values: Tensor) -> list[Tensor]:
    """All counts, and sums of whole numbers."""
    assert torch.equal(past.sum(lambda old, age: age >= 1, ages=True), past.count)

    def f(old: Tensor, own: Tensor, *age: Tensor) -> Tensor:
        return (old - own) ** 2 + (3 * age[0] if age else 0)

    whole = values.nan_to_num(0)
    return [
        past.count_le(values),
        past.count,
        past.count_le(),
        past.count_lt(),
        past.count_lt(values, of="upper"),
        past.count_le(values, of="lower"),
        past.of().count,
        *(past.sum(f, whole, ages=ages) for ages in (False, True)),
    ]


@pytest.fixture(autouse=True, scope="module")
def little_room() -> Iterator[None]:
    """Lets memory be laid out anew more often."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contexts, "LEAST_ROOM", 4)
        yield


@settings(max_examples=8)
@given(
    seed=st.integers(0, 2**32 - 1),
    b=st.integers(1, 3),
    kind=st.sampled_from(["linear", "linear", "hidden", "of groups"]),
    most=st.sampled_from([None, None, 1, 5, 40]),
    how=st.tuples(st.booleans(), st.sampled_from([None, False, True]), st.booleans()),
)
def test_the_same_answers(
    seed: int, b: int, kind: str, most: int | None, how: tuple[bool, bool | None, bool]
) -> None:
    """Through rounds in blocks, with growth, forgetting, saving, dropped values and old ones."""
    draws = np.random.default_rng(seed)
    d, k, known = int(draws.integers(1, 5)), int(draws.integers(1, 5)), int(draws.integers(1, 4))
    like, start, kept = torch.zeros(b, 0, d).double(), 0, list[Any]()
    fast, dense = Contexts.empty(like, known, most), DenseContexts.empty(like, known, most)
    whole = most is not None and draws.random() < 0.5  # windows over all rounds
    while fast.rounds < 60:
        n = int(draws.integers(1, 40))
        if draws.random() < 0.2:
            known += 1
            fast, dense = fast.grow(known), dense.grow(known)
        if draws.random() < 0.3:
            block = pools(draws, b, n, k, d, known)
            supposed = fast.append(*block), dense.append(*block)
            with ways(*how):
                same_answers(*supposed, *ask(draws, supposed[1], start, n, kind))
        block = pools(draws, b, n, k, d, known)
        some = int(draws.integers(1, n + 1))
        for piece in (slice(some), slice(some, None))[: 1 + (some < n)]:
            fast = fast.append(*(part[:, piece] for part in block))
        dense = dense.append(*block)
        asked, values = ask(draws, dense, start, n, kind)
        with ways(*how):
            same_answers(fast, dense, asked, values)
            for old in kept:
                same_answers(*old)
        start = max(start, 0 if whole else int(asked[1][0, -1]))
        kept.append((fast, dense, asked, values))
        kept = kept[-3:]
        if draws.random() < 0.7:
            fast = fast.forget(start)
        if draws.random() < 0.2:
            fast = fast.restored(fast.state())


def test_what_the_reference_counts() -> None:
    """A pool by hand: 2 replicas, one feature that is the score, groups 0 and 1."""
    past = torch.tensor([[[1.0, 2.0, 9.0], [2.0, 3.0, 9.0]], [[5.0, 9.0, 6.0], [9.0, 7.0, 8.0]]])
    members = torch.tensor([[[0, 0, -1], [0, 1, -1]], [[0, -1, 0], [-1, 1, 1]]])
    one, zero = Weights(torch.ones(2, 1, 1).double(), shown=True), torch.zeros(1, dtype=torch.int64)
    groups, values = torch.tensor([[[0, 1, -1]]] * 2), torch.full((2, 1, 3), 2.0).double()
    for most, count, below, total, age in (
        (None, [[3, 1, 0], [2, 2, 0]], [[3, 0, 0], [0, 0, 0]], [[5, 3, 0], [11, 15, 0]], [5, 4]),
        (1, [[1, 1, 0], [1, 1, 0]], [[1, 0, 0], [0, 0, 0]], [[2, 3, 0], [6, 8, 0]], [1, 2]),
    ):
        dense = DenseContexts.empty(torch.empty(2, 0, 1).double(), 2, most)
        dense = dense.append(past.double()[..., None], members)
        judge = DensePastScores(dense, np.array([3]), np.array([[0], [2]]), groups, one, zero, None)
        assert judge.count[:, 0].tolist() == count
        assert judge.count_le(values)[:, 0].tolist() == below
        assert judge.sum(lambda old: old)[:, 0].tolist() == total
        assert judge.sum(lambda old, age: age, ages=True)[:, 0, 0].tolist() == age

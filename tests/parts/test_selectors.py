"""Picks in proportion to weights; argmax: uniform over the maximisers, never an empty place."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fairbandit import FairbanditError
from fairbandit.parts import (
    Argmax,
    Candidates,
    Division,
    History,
    LinearModel,
    Problem,
    Selection,
    Selector,
)
from fairbandit.streams import Purpose, Streams


def asked(
    selector: Selector,
    index: Tensor,
    present: Tensor | None = None,
    upper: Tensor | None = None,
    first: int = 1,
    bounds: Callable[[Candidates], tuple[Tensor, Tensor]] = Candidates.bounds,
) -> Selection:
    """The picks of rounds from `first` on, by an index (B, N, K) with bounds."""
    b, n, k = index.shape
    problem = Problem(1, 1, Streams(5, range(b)))
    selector.bind(problem)
    groups = torch.zeros(b, n, k, dtype=torch.int64)
    past = torch.zeros(n, dtype=torch.int64)
    candidates = Candidates(
        first,
        Division(past, past, past),
        problem.zeros(b, n, k, 1),
        groups if present is None else groups.masked_fill(~present, -1),
        LinearModel(problem.zeros(b, 1, 1)),
        past,
        History(problem, ()),
        problem.streams[Purpose.RANK],
    )
    candidates.set_index(index, index if upper is None else upper, bounds)
    return selector.select(candidates, index)


class Given(Selector):
    """Picks by the weights that it was made with."""

    part_kind, part_name = "selector", "given"

    def __init__(self, weights: Callable[[Tensor], Tensor]) -> None:
        self.weights = weights

    def _weights(self, candidates: Candidates, index: Tensor) -> Tensor:
        return self.weights(index)


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=8))
def test_argmax_picks_a_present_maximiser(pool: list[tuple[int, bool]]) -> None:
    index = torch.tensor([[[float(value) for value, _ in pool]]], dtype=torch.float64)
    present = torch.tensor([[[here for _, here in pool]]])
    if not present.any():
        with pytest.raises(FairbanditError, match="the pool at replica 0, round 1 has no cand"):
            asked(Argmax(), index, present)
        return
    selection = asked(Argmax(), index, present)
    best = max(value for value, here in pool if here)
    assert pool[int(selection.actions)] == (best, True)
    ties = [float(one == (best, True)) for one in pool]
    assert float(selection.propensities) == 1 / sum(ties)
    assert selection.probabilities.flatten().tolist() == [tie / sum(ties) for tie in ties]


@pytest.mark.parametrize("seed", range(4))
def test_argmax_picks_by_one_number_a_round(seed: int) -> None:
    """Of n maximisers it is the one of order ⌊u·n⌋ + 1, whatever normalising would round."""
    draws = torch.Generator().manual_seed(seed)
    b, n, k, first = 3, 500, 12, 7
    index = torch.randint(0, 2, (b, n, k), generator=draws).double()
    present = torch.rand(b, n, k, generator=draws) < 0.8
    present[:, :, 4] = True
    selection = asked(Argmax(), index, present, first=first)
    uniform = Streams(5, range(b))[Purpose.SELECTOR].uniform(first, n, 1)[..., 0]
    for r in range(b):
        for i in range(n):
            here = [a for a in range(k) if present[r, i, a]]
            top = max(float(index[r, i, a]) for a in here)
            best = [a for a in here if float(index[r, i, a]) == top]
            picked = best[int(float(uniform[r, i]) * len(best))]
            assert int(selection.actions[r, i]) == picked
            assert float(selection.propensities[r, i]) == 1 / len(best)


def test_ties_are_uniform() -> None:
    """Three of four tie; chi-square with 2 degrees of freedom, failing with probability 1e-6."""
    n = 30_000
    index = torch.tensor([1.0, 0.5, 1.0, 1.0]).expand(3, n // 3, 4)
    counts = torch.bincount(asked(Argmax(), index).actions.flatten(), minlength=4)
    assert int(counts[1]) == 0
    statistic = float(((counts[[0, 2, 3]] - n / 3) ** 2 / (n / 3)).sum())
    assert statistic < 27.6


def test_ties_up_to_the_upper_index() -> None:
    index = torch.tensor([1.0, 1.0 - 1e-15, 0.9], dtype=torch.float64).expand(1, 39, 3)
    selection = asked(Argmax(), index, upper=index + 1e-14)
    assert set(selection.actions.flatten().tolist()) == {0, 1}
    assert set(selection.propensities.flatten().tolist()) == {0.5}


@pytest.mark.parametrize("scale", [1e-300, 1e-3, 0.7, 1e300])
def test_weights_need_no_norm(scale: float) -> None:
    """100,000 draws at 0.1, 0.3, 0 and 0.6; chi-square with 2 degrees of freedom, failing with
    probability 1e-6."""
    weights, n = torch.tensor([1.0, 3.0, 0.0, 6.0], dtype=torch.float64), 100_000
    index = torch.zeros(1, n, 4, dtype=torch.float64)
    selection = asked(Given(lambda index: (weights * scale).expand(index.shape)), index)
    shares = weights / 10
    counts = torch.bincount(selection.actions[0], minlength=4)
    assert int(counts[2]) == 0
    expected = n * shares[[0, 1, 3]]
    assert float(((counts[[0, 1, 3]] - expected) ** 2 / expected).sum()) < 27.6
    torch.testing.assert_close(selection.propensities[0], shares[selection.actions[0]])
    torch.testing.assert_close(selection.probabilities[0], shares.expand(n, 4))


def test_probabilities_sum_to_one() -> None:
    draws = torch.Generator().manual_seed(0)
    weights = torch.rand(2, 300, 9, generator=draws, dtype=torch.float64) ** 8
    present = torch.rand(2, 300, 9, generator=draws) < 0.7
    present[:, :, 0] = True
    weights = weights * present
    selection = asked(Given(lambda index: weights), torch.zeros_like(weights), present)
    probabilities = selection.probabilities
    torch.testing.assert_close(probabilities.sum(2), torch.ones(2, 300, dtype=torch.float64))
    picked = probabilities.gather(2, selection.actions[..., None])[..., 0]
    torch.testing.assert_close(selection.propensities, picked)
    assert bool((selection.propensities > 0).all())


@pytest.mark.parametrize("kind", [torch.bool, torch.int64, torch.float32])
def test_weights_of_any_type(kind: torch.dtype) -> None:
    index = torch.zeros(1, 40, 3, dtype=torch.float64)
    weights = torch.tensor([0, 1, 1]).to(kind).expand(index.shape)
    selection = asked(Given(lambda index: weights), index)
    assert set(selection.actions.flatten().tolist()) == {1, 2}
    assert selection.propensities.dtype == torch.float64


def test_one_place_each_is_certain() -> None:
    index = torch.zeros(1, 4, 3, dtype=torch.float64)
    weights = 0.3 * torch.eye(3, dtype=torch.float64)[[2, 0, 1, 1]][None]
    selection = asked(Given(lambda index: weights), index)
    assert selection.actions.tolist() == [[2, 0, 1, 1]]
    assert selection.propensities.tolist() == [[1, 1, 1, 1]]


@pytest.mark.parametrize(
    "weights",
    [
        [1.0, -0.5, 0.0],
        [1.0, float("nan"), 0.0],
        [1.0, float("inf"), 0.0],
        [1e308, 1e308, 0.0],
        [0.0, 0.0, 0.0],
        [1.0, 1.0, 1e-9],
        [1.0, 1.0, -1.0],
    ],
)
def test_unsound_weights(weights: list[float]) -> None:
    """The last place is empty; the message tells the first round that is wrong."""
    present = torch.tensor([True, True, False]).expand(2, 6, 3)
    index = torch.zeros(2, 6, 3, dtype=torch.float64)
    given = torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64).repeat(2, 6, 1)
    given[1, 4:] = torch.tensor(weights, dtype=torch.float64)
    with pytest.raises(FairbanditError) as caught:
        asked(Given(lambda index: given), index, present, first=10)
    assert str(caught.value) == (
        f"selector 'given' gave weights {weights} at replica 1, round 14; expected finite numbers "
        "of at least 0, some above 0, and 0 beside the places [0, 1]"
    )


def test_weights_of_the_wrong_shape() -> None:
    index = torch.zeros(1, 4, 3, dtype=torch.float64)
    with pytest.raises(
        FairbanditError,
        match=r"'given' gave weights of shape \(1, 4\); expected \(B, N, K\) = \(1, 4, 3\)",
    ):
        asked(Given(lambda index: index.amax(2)), index)


def test_an_upper_index_below_the_index() -> None:
    index = torch.zeros(1, 4, 3, dtype=torch.float64)
    with pytest.raises(
        FairbanditError, match=r"the rank's `upper_index` must be .*; at replica 0, round 1 it is"
    ):
        asked(Argmax(), index, upper=index - 1)

"""Selectors against their formulas; picks in proportion to weights, never an empty place."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fairbandit import FairbanditError, Policy, build
from fairbandit.candidates import Candidates
from fairbandit.conformance import Scattered
from fairbandit.maths.merit import MeritForm
from fairbandit.selectors import (
    Argmax,
    Chain,
    EpsilonGreedy,
    GroupChance,
    GroupParity,
    Proportional,
    Selector,
    best,
)
from fairbandit.streams import Purpose, Streams
from tests import support
from tests.asking import select
from tests.notions.test_loops import chained


class Given(Selector):
    """Picks by the weights that it was made with."""

    def __init__(self, weights: Callable[[Tensor], Tensor]) -> None:
        self.weights = weights

    def _weights(self, candidates: Candidates, index: Tensor) -> Tensor:
        return self.weights(index)


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=8))
def test_argmax_picks_a_present_maximiser(pool: list[tuple[int, bool]]) -> None:
    index = torch.tensor([[[float(value) for value, _ in pool]]], dtype=torch.float64)
    groups = torch.tensor([0 if here else -1 for _, here in pool])
    if not any(here for _, here in pool):
        with pytest.raises(
            FairbanditError, match=r"at replica 0, round 1; .* has candidates at \[\]"
        ):
            select(Argmax(), index, groups)
        return
    selection = select(Argmax(), index, groups)
    best = max(value for value, here in pool if here)
    assert pool[int(selection.actions)] == (best, True)
    ties = [float(one == (best, True)) for one in pool]
    assert selection.probabilities.flatten().tolist() == [tie / sum(ties) for tie in ties]


class Least(Selector):
    """The candidates of least index, by an index of its own."""

    def _weights(self, candidates: Candidates, index: Tensor) -> Tensor:
        return best(candidates, -index, candidates.present)


def test_a_selector_may_choose_the_best_by_an_index_of_its_own() -> None:
    index = torch.tensor([[[1.0, 3.0, 1.2, 1.5]]], dtype=torch.float64)
    for off, probabilities in ((0.0, [1, 0, 0, 0]), (0.1, [0.5, 0, 0.5, 0])):
        found = select(Least(), index, ceiling=index + off).probabilities
        assert found.flatten().tolist() == probabilities


INDEX = [1.0, -3.0, 9.0, 4.0, 0.005]
GROUPS = [0, 0, -1, 1, 1]


@pytest.mark.parametrize(
    ("selector", "weights"),
    [
        (EpsilonGreedy(epsilon=0.2), [0.05, 0.05, 0, 0.85, 0.05]),
        (Proportional(), [1, 0.01, 0, 4, 0.01]),
        (Proportional(floor=2.0), [2, 2, 0, 4, 2]),
        (Proportional(merit=MeritForm.power, exponent=0.5), [1, 0.01, 0, 2, 0.005**0.5]),
        (
            Proportional(merit=MeritForm.exponential, rate=0.5, floor=1e-9),
            [math.exp(0.5), math.exp(-1.5), 0, math.exp(2), math.exp(0.0025)],
        ),
        (GroupParity(chance=GroupChance.uniform), [1, 0, 0, 1, 0]),
    ],
)
def test_the_formula(selector: Selector, weights: list[float]) -> None:
    """The third place is empty; one candidate has a negative index, and one is below the floor."""
    index = torch.tensor([[INDEX]], dtype=torch.float64)
    found = select(selector, index, torch.tensor(GROUPS)).probabilities[0, 0]
    torch.testing.assert_close(found, torch.tensor(weights, dtype=torch.float64) / sum(weights))


@pytest.mark.parametrize(("chance", "shares"), [("uniform", [3, 2, 2]), ("pool", [1, 2, 2])])
def test_groups_by_their_chance(chance: str, shares: list[int]) -> None:
    """One group of three whose best two tie, and a group of one."""
    index, groups = torch.tensor([[[1.0, 5.0, 5.0, 0.0]]]).double(), torch.tensor([0, 0, 0, 1])
    found = select(GroupParity(chance=GroupChance[chance]), index, groups).probabilities[0, 0]
    of_one = 1 / 2 if chance == "uniform" else 1 / 4
    assert found.tolist() == [0, (1 - of_one) / 2, (1 - of_one) / 2, of_one]


@pytest.mark.parametrize("selector", [Argmax(), EpsilonGreedy(epsilon=0.0), GroupParity(), Chain()])
def test_ties_up_to_the_ceiling(selector: Selector) -> None:
    """Each index may be as far below as its ceiling is above it."""
    index = torch.tensor([[[1.0, 1.0 - 1.5e-14, 0.9]]], dtype=torch.float64)
    found = select(selector, index, ceiling=index + 1e-14, bounds=(index, index))
    assert found.probabilities.tolist() == [[[0.5, 0.5, 0.0]]]


def actions(estimator: str, selector: object) -> Tensor:
    parts = {"split": "full", "estimator": estimator, "rank": "identity", "selector": selector}
    made = build(parts)
    assert isinstance(made, Policy)
    return support.actions(made, Scattered(), 200, replicas=3)


@pytest.mark.parametrize(
    ("estimator", "selector", "end"),
    [
        ("ridge", {"name": "epsilon_greedy", "epsilon": 0.0}, ("ridge", "argmax")),
        ("ridge", {"name": "epsilon_greedy", "epsilon": 1.0}, ("zero", "argmax")),
        ({"name": "thompson_ridge", "scale": 0.0}, "argmax", ("ridge", "argmax")),
        ("oracle", "chain", ("oracle", "argmax")),
    ],
)
def test_the_ends_decide_alike_in_every_round(
    estimator: str, selector: object, end: tuple[str, str]
) -> None:
    one, other = actions(estimator, selector), actions(*end)
    assert torch.equal(one, other)


END = st.sampled_from([-np.inf, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, np.inf])


@given(st.lists(st.tuples(END, END, st.booleans()), min_size=1, max_size=9))
def test_whom_overlaps_connect_to_the_highest(pool: list[tuple[float, float, bool]]) -> None:
    """Small whole numbers, so that intervals touch, contain each other, and are equal."""
    low, high = np.sort([[one, other] for one, other, _ in pool], axis=1).T
    present = np.array([here for _, _, here in pool])
    present[0] = True
    ends = [torch.from_numpy(end.copy()).view(1, 1, -1) for end in (low, high)]
    groups = torch.from_numpy(np.where(present, 0, -1))
    found = select(Chain(), torch.zeros_like(ends[0]), groups, bounds=ends)
    chain = np.flatnonzero(present)[chained(low[present], high[present])]
    expected = np.isin(np.arange(len(pool)), chain) / len(chain)
    assert found.probabilities.flatten().tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"estimator": "ridge"}, "no confidence bounds"),
        ({"rank": "empirical_cdf"}, "rank 'empirical_cdf' has no bounds on its index"),
        ({"split": "halves", "rank": "interval_cdf"}, r"begin with round 1, as .* 'full'; got .*"),
    ],
)
def test_a_chain_without_bounds_is_refused(parts: dict[str, str], message: str) -> None:
    sound = {"split": "full", "estimator": "optimistic_ridge", "rank": "identity"}
    made = build({**sound, **parts, "selector": "chain"})
    assert isinstance(made, Policy)
    with pytest.raises(FairbanditError, match=message):
        support.actions(made, Scattered(), 5)


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300, None])
def test_picks_are_as_likely_as_reported(scale: float | None) -> None:
    """The first place whose cumulative weight exceeds u·Σw; weights need no norm.

    Of n maximisers (scale None) it is the one of order ⌊u·n⌋ + 1.
    """
    index, weights = torch.zeros(3, 300, 5).double(), torch.rand(3, 300, 5).double()
    weights[:, :, 2] = 0
    if scale is None:
        weights = (weights > 0.4).double()
        weights[:, :, 4] = scale = 1.0
    selection = select(Given(lambda _: scale * weights), index)
    uniform = Streams(5, range(3))[Purpose.SELECTOR].uniform(1, 300, 1)
    cumulative = weights.cumsum(2)
    expected = (cumulative <= uniform * cumulative[..., -1:]).sum(2)
    assert torch.equal(selection.actions, expected)
    shares = weights / cumulative[..., -1:]
    torch.testing.assert_close(selection.probabilities, shares)
    reported = shares.gather(2, expected[..., None])[..., 0]
    torch.testing.assert_close(selection.propensities, reported)


@pytest.mark.parametrize("kind", [torch.bool, torch.int64, torch.float32])
def test_weights_of_any_type(kind: torch.dtype) -> None:
    index = torch.zeros(1, 40, 3, dtype=torch.float64)
    weights = torch.tensor([0, 1, 1]).to(kind).expand(index.shape)
    selection = select(Given(lambda index: weights), index)
    assert set(selection.actions.flatten().tolist()) == {1, 2}
    assert selection.propensities.dtype == torch.float64


@pytest.mark.parametrize(
    "weights",
    [[1, -0.5, 0], [1, math.nan, 0], [1, math.inf, 0], [1e308, 1e308, 0], [0, 0, 0], [1, 1, 1e-9]],
)
def test_unsound_weights(weights: list[float]) -> None:
    """The last place is empty; the message tells the first round that is wrong."""
    unsound = torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64).repeat(2, 6, 1)
    unsound[1, 4:] = torch.tensor(weights, dtype=torch.float64)
    message = r"selector 'Given' gave weights .* at replica 1, round 5; expected finite numbers"
    with pytest.raises(FairbanditError, match=message):
        select(Given(lambda index: unsound), torch.zeros_like(unsound), torch.tensor([0, 0, -1]))
    with pytest.raises(FairbanditError, match=r"of shape \(2, 6\); expected \(B, N, K\)"):
        select(Given(lambda index: unsound[..., 0]), torch.zeros_like(unsound))

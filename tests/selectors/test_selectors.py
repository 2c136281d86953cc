"""Selectors against their formulas; picks in proportion to weights, never an empty place."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fairbandit import FairbanditError, Policy, build
from fairbandit.conformance import Scattered
from fairbandit.selectors import (
    Argmax,
    Chain,
    EpsilonGreedy,
    GroupChance,
    GroupParity,
    Proportional,
    Ranked,
    Selection,
    Selector,
    proportional,
)
from fairbandit.selectors.merit import MeritForm
from tests import support
from tests.notions.test_loops import chained
from tests.support import ranked


def select(selector: Selector, *given: Any, **further: Any) -> Selection:
    """One pick of each pool; the arguments are those of `ranked`."""
    return selector.select(ranked(*given, **further))


class Given(Selector):
    """Picks in proportion to the weights that it was made with."""

    def __init__(self, weights: Callable[[Tensor], Tensor]) -> None:
        self.weights = weights

    def _inclusion(self, ranked: Ranked, picks: int) -> Tensor:
        return proportional(self.weights(ranked.index.value), picks)


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
    assert selection.inclusion.flatten().tolist() == [tie / sum(ties) for tie in ties]


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
    found = select(selector, index, torch.tensor(GROUPS)).inclusion[0, 0]
    torch.testing.assert_close(found, torch.tensor(weights, dtype=torch.float64) / sum(weights))


@pytest.mark.parametrize(("chance", "shares"), [("uniform", [3, 2, 2]), ("pool", [1, 2, 2])])
def test_groups_by_their_chance(chance: str, shares: list[int]) -> None:
    """One group of three whose best two tie, and a group of one."""
    index, groups = torch.tensor([[[1.0, 5.0, 5.0, 0.0]]]).double(), torch.tensor([0, 0, 0, 1])
    found = select(GroupParity(chance=GroupChance[chance]), index, groups).inclusion[0, 0]
    of_one = 1 / 2 if chance == "uniform" else 1 / 4
    assert found.tolist() == [0, (1 - of_one) / 2, (1 - of_one) / 2, of_one]


@pytest.mark.parametrize("selector", [Argmax(), EpsilonGreedy(epsilon=0.0), GroupParity(), Chain()])
def test_ties_up_to_the_ceiling(selector: Selector) -> None:
    """Each index may be as far below as its ceiling is above it."""
    index = torch.tensor([[[1.0, 1.0 - 1.5e-14, 0.9]]], dtype=torch.float64)
    found = select(selector, index, slack=torch.full_like(index, 1e-14), bounds=(index, index))
    assert found.inclusion.tolist() == [[[0.5, 0.5, 0.0]]]


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
    found = select(Chain(), torch.zeros_like(ends[0]), groups, bounds=(ends[0], ends[1]))
    chain = np.flatnonzero(present)[chained(low[present], high[present])]
    expected = np.isin(np.arange(len(pool)), chain) / len(chain)
    assert found.inclusion.flatten().tolist() == expected.tolist()


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


class Stated(Selector):
    """Gives the inclusion probabilities that it was made with."""

    def __init__(self, inclusion: Tensor) -> None:
        self.inclusion = inclusion

    def _inclusion(self, ranked: Ranked, picks: int) -> Tensor:
        return self.inclusion


@pytest.mark.parametrize(
    "inclusion",
    [[1.5, -0.5, 0], [1, math.nan, 0], [1, math.inf, 0], [0, 0, 0], [0.5, 0.6, 0], [0.5, 0.4, 0.1]],
)
def test_unsound_probabilities(inclusion: list[float]) -> None:
    """The last place is empty; the message tells the first round that is wrong."""
    unsound = torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64).repeat(2, 6, 1)
    unsound[1, 4:] = torch.tensor(inclusion, dtype=torch.float64)
    message = r"selector 'Stated' gave inclusion .* at replica 1, round 5; expected numbers from 0"
    with pytest.raises(FairbanditError, match=message):
        select(Stated(unsound), torch.zeros_like(unsound), torch.tensor([0, 0, -1]))
    for wrong in (unsound[..., 0], unsound.float()):
        with pytest.raises(FairbanditError, match=r"of shape .*; expected \(2, 6, 3\)"):
            select(Stated(wrong), torch.zeros_like(unsound))

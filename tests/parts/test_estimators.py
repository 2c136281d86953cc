"""Ridge, its noise, and OFUL's bonus against independent solutions; asking changes nothing."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fairbandit import Policy, Truth, build
from fairbandit.conformance import Scattered
from fairbandit.parts import Estimator, LinearModel, OptimisticRidge, Outcomes, Problem, Ridge
from fairbandit.parts import Oracle as OracleEstimator
from fairbandit.parts.ridge import ILL, Radius
from fairbandit.streams import Purpose, Streams
from tests import support
from tests.exact import EPS, Array, off_by

B, D = 2, 6


def bound(estimator: Estimator, truth: Truth | None = None) -> Problem:
    problem = Problem(D, 2, Streams(3, range(B)), exploration=0.7, truth=truth)
    estimator.bind(problem)
    return problem


def drawn(n: int, seed: int = 8) -> Outcomes:
    """The outcomes of n rounds."""
    draws = np.random.default_rng(seed)
    x, r = (torch.from_numpy(draws.normal(size=size)) for size in ((B, n, D), (B, n)))
    return Outcomes(x, torch.zeros(B, n, dtype=torch.int64), r)


def part(outcomes: Outcomes, start: int, stop: int) -> Outcomes:
    """Those of rounds start+1 … stop."""
    return Outcomes(*(one[:, start:stop] for one in outcomes))


def thetas(estimator: Estimator, n_train: list[int], outcomes: Outcomes) -> Tensor:
    """θ after each number of training rounds, (B, N, d)."""
    rounds = torch.arange(1, len(n_train) + 1) + n_train[-1]
    model, of_round = estimator.models(rounds, torch.tensor(n_train), outcomes)
    assert model.theta is not None
    return model.theta[:, of_round]


def least_squares(x: Array, r: Array, regularization: float) -> Array:
    """min ‖Xθ − r‖² + λ‖θ‖², by lstsq on rows √λI stacked below X."""
    rows = np.vstack([x, math.sqrt(regularization) * np.eye(x.shape[1])])
    return np.asarray(
        np.linalg.lstsq(rows, np.concatenate([r, np.zeros(x.shape[1])]), rcond=None)[0]
    )


@pytest.mark.parametrize("regularization", [1e-8, 0.1, 10.0])
def test_ridge_is_the_augmented_least_squares_solution(regularization: float) -> None:
    """After fewer and after more rounds than d."""
    ridge, outcomes = Ridge(regularization=regularization, noise=0), drawn(40)
    bound(ridge)
    n_train = [0, 1, 3, 6, 17, 17, 40]
    theta = thetas(ridge, n_train, outcomes)
    for b in range(B):
        for i, n in enumerate(n_train):
            x, r = outcomes.contexts[b, :n].numpy(), outcomes.rewards[b, :n].numpy()
            solution = least_squares(x, r, regularization)
            limit = 2 * off_by(x, r, regularization, solution, np.eye(D))  # two stable solutions
            assert bool((np.abs(theta[b, i].numpy() - solution) <= limit).all())


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    cuts=st.lists(st.sampled_from([0, 1, 1, 2, 9, 40, 150]), min_size=1, max_size=5),
    regularization=st.sampled_from([1e-8, 0.1, 10.0]),
)
def test_asking_changes_nothing(seed: int, cuts: list[int], regularization: float) -> None:
    """Committed in any cuts, asked or not, twice or about other outcomes: least squares of all."""
    draws, ends = np.random.default_rng(seed), [0, *np.cumsum(cuts).tolist()]
    outcomes = drawn(ends[-1] + 20, seed)
    asked, silent = (OptimisticRidge(regularization=regularization) for _ in range(2))
    bound(asked)
    bound(silent)
    for start, stop in pairwise(ends):
        known = part(outcomes, start, stop)
        n_train = sorted([*draws.integers(start, stop + 1, 3).tolist(), stop])
        before = asked.state()
        rounds = torch.arange(stop + 1, stop + 5)
        first, _ = asked.models(rounds, torch.tensor(n_train), known)
        beyond = part(outcomes, start, stop + 20)
        asked.models(rounds, torch.tensor([*n_train[1:], stop + 20]), beyond)
        again, _ = asked.models(rounds, torch.tensor(n_train), known)
        assert all(map(torch.equal, first.parameters, again.parameters))
        other = Outcomes(-known.contexts, known.groups, 3 * known.rewards)
        asked.models(rounds, torch.tensor(n_train), other)
        after = asked.state()
        assert all(
            torch.equal(torch.as_tensor(after[key]), torch.as_tensor(before[key])) for key in before
        )
        for one in (asked, silent):
            one.commit(stop, known)
            theta = one.models(rounds[:1], torch.tensor([stop]), part(outcomes, 0, 0))[0]
            for b in range(B):
                x, r = outcomes.contexts[b, :stop].numpy(), outcomes.rewards[b, :stop].numpy()
                solution = least_squares(x, r, regularization)
                # updates round by at most ε·κ(V) each, and are made where κ(V) is below `ILL`
                limit = off_by(x, r, regularization, solution, np.eye(D)) + 16 * EPS * ILL
                assert bool((np.abs(theta.parameters[0][b, 0].numpy() - solution) <= limit).all())


def test_injected_noise_is_scaled_and_drawn_once_a_number() -> None:
    plain, noisy, outcomes = Ridge(noise=0), Ridge(noise=0.3), drawn(9)
    problem = bound(plain)
    bound(noisy)
    n_train = [0, 4, 4, 9]
    added = thetas(noisy, n_train, outcomes) - thetas(plain, n_train, outcomes)
    gamma = problem.streams[Purpose.ESTIMATOR].normal(1, 20, 6)
    assert bool((added[:, 0] == 0).all())
    for i, n in ((1, 4), (2, 4), (3, 9)):
        torch.testing.assert_close(added[:, i], 0.3 / (6 * math.sqrt(n)) * gamma[:, n - 1])


@pytest.mark.parametrize("radius", Radius)
def test_bonus_and_bounds(radius: Radius) -> None:
    oful, outcomes = OptimisticRidge(radius=radius, subgaussian=2.0, norm=3.0, delta=0.1), drawn(12)
    problem = bound(oful)
    model, _ = oful.models(torch.tensor([6, 13]), torch.tensor([5, 12]), outcomes)
    contexts = torch.from_numpy(np.random.default_rng(1).normal(size=(2, 1, 9, 6)))
    groups = torch.zeros(2, 1, 9, dtype=torch.int64)
    scores, (low, high) = model.score(contexts, groups), model.bounds(contexts, groups)
    assert model.theta is None
    for b in range(2):
        for i, n in enumerate((5, 12)):
            X = outcomes.contexts[b, :n].numpy()
            V = X.T @ X + 0.1 * np.eye(6)
            growth = np.linalg.slogdet(V)[1] - 6 * math.log(0.1)
            beta = math.sqrt(2 * growth) * math.sqrt(math.log(n + 1))
            if radius is Radius.textbook:
                ratio = math.sqrt(np.linalg.det(V)) / (math.sqrt(0.1**6) * 0.1)
                beta = 2.0 * math.sqrt(2 * math.log(ratio)) + math.sqrt(0.1) * 3.0
            theta = np.linalg.solve(V, X.T @ outcomes.rewards[b, :n].numpy())
            for m in range(9):
                c = contexts[b, 0, m].numpy()
                bonus = problem.exploration * beta * math.sqrt(c @ np.linalg.solve(V, c))
                assert float(scores[b, i, m]) == pytest.approx(c @ theta + bonus, rel=1e-9)
                assert float(high[b, i, m]) == pytest.approx(c @ theta + bonus, rel=1e-9)
                assert float(low[b, i, m]) == pytest.approx(c @ theta - bonus, rel=1e-9)
    assert bool(((low <= scores) & (scores <= high) & (low < high)).all())


@pytest.mark.parametrize("linear", [True, False])
def test_the_oracle_scores_true_rewards(linear: bool) -> None:
    theta = torch.arange(1.0, D + 1, dtype=torch.float64)

    def cdf(groups: Tensor, values: Tensor) -> Tensor:
        return values.sigmoid()

    def curved(contexts: Tensor, groups: Tensor) -> Tensor:
        return (contexts @ theta).sin() + groups

    oracle = OracleEstimator()
    bound(oracle, Truth(theta, cdf) if linear else Truth(None, cdf, rewards=curved))
    model, of_round = oracle.models(torch.arange(1, 5), torch.arange(4), drawn(0))
    assert (len(model), of_round.tolist(), model.theta is not None) == (1, [0, 0, 0, 0], linear)
    contexts = torch.from_numpy(np.random.default_rng(1).normal(size=(B, 1, 9, D)))
    groups = torch.arange(9).remainder(2).expand(B, 1, 9)
    scores = contexts @ theta if linear else curved(contexts, groups)
    torch.testing.assert_close(model.score(contexts, groups), scores)
    for end in model.bounds(contexts, groups):
        assert torch.equal(end, model.score(contexts, groups))


class Refitting(Estimator):
    """Ridge regression by least squares on all past outcomes, from scratch each time."""

    part_kind, part_name = "estimator", "refitting"
    needs = frozenset({"rewards"})

    def _models(self, rounds: list[int], n_train: list[int], outcomes: Outcomes) -> LinearModel:
        theta = [
            [least_squares(x[:n].numpy(), r[:n].numpy(), 0.1) for n in n_train]
            for x, r in zip(outcomes.contexts, outcomes.rewards, strict=True)
        ]
        return LinearModel(torch.from_numpy(np.array(theta)))


@pytest.mark.parametrize(("split", "rounds"), [("halves", 600), ("full", 270)])
def test_an_estimator_that_fits_everything_anew(split: str, rounds: int) -> None:
    """Beyond the rounds after which those that are taken in are forgotten: as the ridge decides."""
    ridge, anew = (
        build(
            {
                "split": split,
                "estimator": {"name": "ridge", "noise": 0.0},
                "rank": "identity",
            }
        )
        for _ in range(2)
    )
    assert isinstance(ridge, Policy)
    assert isinstance(anew, Policy)
    anew.estimator = Refitting()
    one, other = (support.actions(made, Scattered(), rounds, replicas=2) for made in (ridge, anew))
    assert torch.equal(one, other)

"""Ridge, its noise, and OFUL's bonus against independent solutions; asking changes nothing."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fairbandit import Engine, FairbanditError, Policy, Truth, build
from fairbandit.conformance import Scattered
from fairbandit.parts import Estimator, LinearModel, OptimisticRidge, Outcomes, Problem, Ridge, Zero
from fairbandit.parts import Oracle as OracleEstimator
from fairbandit.parts.model import FactoredOptimisticModel, OptimisticModel
from fairbandit.parts.more_estimators import ThompsonRidge
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


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), regularization=st.sampled_from([1e-3, 0.1, 10.0]))
def test_outcomes_that_are_absorbed(seed: int, regularization: float) -> None:
    """Late or early, in any order: a model includes those of its training rounds and no others."""
    draws, outcomes = np.random.default_rng(seed), drawn(40, seed)
    ridge = Ridge(regularization=regularization, noise=0)
    bound(ridge)
    counts_from = np.sort(draws.integers(1, 60, 40))  # the first n_train that includes each
    order, committed, absorbed = draws.permutation(40), 0, list[int]()
    for row in order.tolist():
        n = max(int(counts_from[row]), committed)
        ridge.absorb(n, part(outcomes, row, row + 1))
        counts_from[row] = n
        absorbed.append(row)
        ahead = sorted(draws.integers(committed, 70, 3).tolist())
        theta = thetas(ridge, ahead, part(outcomes, 0, 0))
        for i, n_train in enumerate(ahead):
            rows = [known for known in absorbed if counts_from[known] <= n_train]
            for b in range(B):
                x, r = outcomes.contexts[b, rows].numpy(), outcomes.rewards[b, rows].numpy()
                solution = least_squares(x, r, regularization)
                np.testing.assert_allclose(theta[b, i].numpy(), solution, rtol=1e-8, atol=1e-8)
        if draws.random() < 0.2:
            committed = ahead[0]
            ridge.commit(committed, part(outcomes, 0, 0))


def test_absorbed_outcomes_are_saved() -> None:
    ridge, other, outcomes = Ridge(), Ridge(), drawn(30)
    bound(ridge)
    bound(other)
    ridge.commit(5, part(outcomes, 0, 5))
    for row in range(5, 30):
        ridge.absorb(10 if row % 2 else 20, part(outcomes, row, row + 1))
    other.load_state(ridge.state())
    for n in (5, 10, 19, 20):
        one, two = (thetas(made, [n], part(outcomes, 0, 0)) for made in (ridge, other))
        assert torch.equal(one, two)


@pytest.mark.parametrize("kind", [Ridge, OptimisticRidge, ThompsonRidge])
def test_the_sums_are_those_of_all_rows(kind: type[Ridge]) -> None:
    """Some of the rows may still have to be added to V and b."""
    ridge = kind()
    bound(ridge)
    rounds, pending = drawn(300), set[int]()
    x, r = rounds.contexts, rounds.rewards
    for n in range(1, 301):
        ridge.commit(n, part(rounds, n - 1, n))
        state: dict[str, Any] = dict(ridge.state())
        pending.add(state["pending"].shape[1])
        V, b = support.ridge_sums(state)
        torch.testing.assert_close(
            V, x[:, :n].transpose(1, 2) @ x[:, :n] + 0.1 * torch.eye(D, dtype=torch.float64)
        )
        torch.testing.assert_close(b, (x[:, :n] * r[:, :n, None]).sum(1))
    assert len(pending) == max(ridge.most_pending, 1)


@pytest.mark.parametrize(("saved", "played"), [(37, 53), (53, 37), (20, 300)])
def test_a_state_replaces_that_of_an_engine_which_has_played(saved: int, played: int) -> None:
    def engine(rounds: int) -> Engine:
        world = support.environment("simulation")
        return Engine(support.policy("oful"), world, rounds=rounds, seed=2, replicas=range(2))

    first, second, whole = engine(saved), engine(played), engine(400)
    for run in (first, second):
        list(run.play())
    second.rounds = 400
    second.load_state(first.state())
    rest = torch.cat([piece.actions for piece in second.play()], 1)
    assert rest.equal(torch.cat([piece.actions for piece in whole.play()], 1)[:, saved:])


def test_an_estimator_that_cannot_absorb() -> None:
    class Sums(Estimator):
        """Keeps sums, and takes in nothing late."""

        part_kind, part_name = "estimator", "sums"

        def _models(self, rounds: list[int], n_train: list[int], outcomes: Outcomes) -> LinearModel:
            return LinearModel(torch.zeros(B, len(n_train), D, dtype=torch.float64))

    class Anew(Sums):
        """Fits everything anew."""

        needs = frozenset({"rewards"})

    outcomes = drawn(1)
    with pytest.raises(FairbanditError, match="estimator 'sums' cannot learn from a reward that"):
        Sums().absorb(3, outcomes)
    for indifferent in (Anew(), Zero()):
        indifferent.absorb(3, outcomes)  # it gets them from the history, or learns nothing


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


@pytest.mark.parametrize("factored", [True, False])
def test_bounds_by_some_features(factored: bool) -> None:
    """Before a commit a model has a factor of V⁻¹, and then its inverse with the later steps."""
    oful, outcomes, features = OptimisticRidge(), drawn(12), torch.tensor([1, 2, 5])
    bound(oful)
    if not factored:
        oful.commit(12, outcomes)
        outcomes = drawn(5)
    n_train = torch.tensor([12, 12]) if factored else torch.tensor([13, 17])
    model, _ = oful.models(n_train + 1, n_train, outcomes)
    assert isinstance(model, OptimisticModel)
    assert isinstance(model, FactoredOptimisticModel) == factored
    draws = np.random.default_rng(1)
    contexts = torch.zeros(2, 1, 9, 6, dtype=torch.float64)
    contexts[..., features] = torch.from_numpy(draws.normal(size=(2, 1, 9, 3)))
    groups = torch.zeros(2, 1, 9, dtype=torch.int64)
    some = model.of_features(features).bounds(contexts[..., features], groups)
    torch.testing.assert_close(some, model.bounds(contexts, groups))


def test_models_without_bounds_name_those_that_have_them() -> None:
    ridge = Ridge()
    bound(ridge)
    model, _ = ridge.models(torch.tensor([2]), torch.tensor([1]), drawn(1))
    with pytest.raises(
        FairbanditError, match=r"LinearModel has no confidence bounds; .* optimistic_ridge, oracle"
    ):
        model.bounds(torch.zeros(B, 1, 3, D), torch.zeros(B, 1, 3).long())


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


def test_one_model_a_number_of_training_rounds_or_a_round() -> None:
    class Drawn(Ridge):
        """Asked about every round."""

        every_round = True

    outcomes, n_train = drawn(4), torch.tensor([0, 2, 2, 2, 4])
    for ridge, numbers in ((Ridge(), [0, 1, 1, 1, 2]), (Drawn(), [0, 1, 2, 3, 4])):
        bound(ridge)
        model, of_round = ridge.models(torch.arange(5, 10), n_train, outcomes)
        assert of_round.tolist() == numbers
        assert len(model) == numbers[-1] + 1


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


def test_exploration_given_or_taken_from_the_environment() -> None:
    given, taken = OptimisticRidge(exploration=0.2), OptimisticRidge()
    bound(given)
    bound(taken)
    assert (given.exploration, taken.exploration) == (0.2, 0.7)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_regularization_out_of_range(value: float) -> None:
    with pytest.raises(FairbanditError, match=r"regularization \(λ\) must be above 0"):
        Ridge(regularization=value)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_noise_out_of_range(value: float) -> None:
    with pytest.raises(FairbanditError, match=r"noise \(ρ\) must be from 0 to 1"):
        Ridge(noise=value)


def test_oful_parameters_out_of_range() -> None:
    with pytest.raises(FairbanditError, match="exploration"):
        OptimisticRidge(exploration=-1.0)
    with pytest.raises(FairbanditError, match="0 < delta"):
        OptimisticRidge(delta=0.0)


@pytest.mark.parametrize(("estimator", "rank"), [("oracle", "identity"), ("ridge", "oracle_cdf")])
def test_oracle_parts_need_an_oracle(estimator: str, rank: str) -> None:
    policy = build({"split": "full", "estimator": estimator, "rank": rank})
    problem = Problem(3, 2, Streams(0, [0]))
    assert isinstance(policy, Policy)
    with pytest.raises(FairbanditError, match="needs a truth"):
        policy.bind(problem)


def test_a_private_ridge_is_one_hook() -> None:
    """Noise added to V, here 5I as the rows √5·I would, changes nothing else."""

    class PrivateRidge(Ridge):
        def bind(self, problem: Problem) -> None:
            super().bind(problem)
            rows = math.sqrt(5.0) * torch.eye(D, dtype=problem.dtype).expand(B, D, D)
            nobody, nothing = torch.full((B, D), -1), problem.zeros(B, D)
            self.absorb(0, Outcomes(rows, nobody, nothing))

    private, heavy, outcomes = PrivateRidge(noise=0), Ridge(regularization=5.1, noise=0), drawn(15)
    bound(private)
    bound(heavy)
    one, other = (thetas(made, [3, 15], outcomes) for made in (private, heavy))
    torch.testing.assert_close(one, other)

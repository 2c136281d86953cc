"""Ridge, its noise, and OFUL's bonus against independent solutions."""

import math

import numpy as np
import pytest
import torch

from fairbandit import FairbanditError, Policy, build
from fairbandit.parts import History, OptimisticRidge, Problem, Ridge
from fairbandit.parts.ridge import Radius
from fairbandit.parts.splits import Full
from fairbandit.streams import Purpose, Streams
from tests.exact import off_by


def learned(estimator: Ridge, n: int, d: int = 6, b: int = 2) -> tuple[History, Problem]:
    problem = Problem(d, 2, Streams(3, range(b)), Full(), exploration=0.7)
    problem.split.bind(problem)
    estimator.bind(problem)
    history = History(problem, ())
    draws = np.random.default_rng(8)
    x, r = (torch.from_numpy(draws.normal(size=size)) for size in ((b, n, d), (b, n)))
    history.add_outcomes(x, torch.zeros(b, n, dtype=torch.int64), r)
    return history, problem


@pytest.mark.parametrize("regularization", [1e-8, 0.1, 10.0])
def test_ridge_is_the_augmented_least_squares_solution(regularization: float) -> None:
    """min ‖Xθ − r‖² + λ‖θ‖², by lstsq on rows √λI stacked below X: fewer and more rows than d."""
    ridge = Ridge(regularization=regularization, noise=0)
    history, problem = learned(ridge, 40)
    nodes = torch.tensor([0, 1, 3, 6, 17, 17, 40])
    model, of_round = ridge.models(nodes, history)
    assert model.theta is not None
    theta = model.theta[:, of_round]
    x, _, r = history.outcomes(0, 40)
    for b in range(problem.replicas):
        for i, n in enumerate(nodes.tolist()):
            rows = np.vstack([x[b, :n].numpy(), math.sqrt(regularization) * np.eye(6)])
            target = np.concatenate([r[b, :n].numpy(), np.zeros(6)])
            solution = np.linalg.lstsq(rows, target, rcond=None)[0]
            both = x[b, :n].numpy(), r[b, :n].numpy()
            bound = 2 * off_by(*both, regularization, solution, np.eye(6))  # two stable solutions
            assert bool((np.abs(theta[b, i].numpy() - solution) <= bound).all())


def test_asking_in_pieces_changes_nothing() -> None:
    whole, pieces = Ridge(noise=0.5), Ridge(noise=0.5)
    history, _ = learned(whole, 30)
    learned(pieces, 30)
    nodes = torch.arange(31)
    together = whole.models(nodes, history)[0].theta
    parts = [pieces.models(nodes[at : at + 7], history)[0].theta for at in range(0, 31, 7)]
    assert together is not None
    joined = torch.cat([part for part in parts if part is not None], 1)
    # 30 steps, each of which rounds by ε·κ(V), and κ(V) < 60/λ
    torch.testing.assert_close(joined, together, rtol=1e-11, atol=1e-11)


def test_injected_noise_is_scaled_and_drawn_once_a_node() -> None:
    plain, noisy = Ridge(noise=0), Ridge(noise=0.3)
    history, problem = learned(plain, 20)
    learned(noisy, 20)
    nodes = torch.tensor([0, 4, 4, 9])
    base, of_round = plain.models(nodes, history)
    moved, _ = noisy.models(nodes, history)
    assert base.theta is not None
    assert moved.theta is not None
    added = (moved.theta - base.theta)[:, of_round]
    gamma = problem.streams[Purpose.ESTIMATOR].normal(1, 20, 6)
    assert bool((added[:, 0] == 0).all())
    for i, n in ((1, 4), (2, 4), (3, 9)):
        torch.testing.assert_close(added[:, i], 0.3 / (6 * math.sqrt(n)) * gamma[:, n - 1])


@pytest.mark.parametrize("radius", Radius)
def test_bonus(radius: Radius) -> None:
    oful = OptimisticRidge(radius=radius, subgaussian=2.0, norm=3.0, delta=0.1)
    history, problem = learned(oful, 12)
    model, _ = oful.models(torch.tensor([5, 12]), history)
    contexts = torch.from_numpy(np.random.default_rng(1).normal(size=(2, 1, 9, 6)))
    scores = model.score(contexts)
    assert model.theta is None
    x, _, r = history.outcomes(0, 12)
    for b in range(2):
        for i, n in enumerate((5, 12)):
            X = x[b, :n].numpy()
            V = X.T @ X + 0.1 * np.eye(6)
            growth = np.linalg.slogdet(V)[1] - 6 * math.log(0.1)
            beta = math.sqrt(2 * growth) * math.sqrt(math.log(n + 1))
            if radius is Radius.textbook:
                ratio = math.sqrt(np.linalg.det(V)) / (math.sqrt(0.1**6) * 0.1)
                beta = 2.0 * math.sqrt(2 * math.log(ratio)) + math.sqrt(0.1) * 3.0
            theta = np.linalg.solve(V, X.T @ r[b, :n].numpy())
            for m in range(9):
                c = contexts[b, 0, m].numpy()
                bonus = problem.exploration * beta * math.sqrt(c @ np.linalg.solve(V, c))
                assert float(scores[b, i, m]) == pytest.approx(c @ theta + bonus, rel=1e-9)


def test_exploration_given_or_taken_from_the_environment() -> None:
    given, taken = OptimisticRidge(exploration=0.2), OptimisticRidge()
    learned(given, 1)
    learned(taken, 1)
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
    """Noise added to V and b, node by node, changes nothing else."""

    class PrivateRidge(Ridge):
        def statistics(self, nodes, history):
            V, b = super().statistics(nodes, history)
            return V + 5.0 * torch.eye(V.shape[-1], dtype=V.dtype), b

    private, heavy = PrivateRidge(noise=0), Ridge(regularization=5.1, noise=0)
    history, _ = learned(private, 15)
    learned(heavy, 15)
    nodes = torch.tensor([3, 15])
    one, other = private.models(nodes, history)[0].theta, heavy.models(nodes, history)[0].theta
    torch.testing.assert_close(one, other)

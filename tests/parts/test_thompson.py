"""Posterior draws against their formula, whichever way the regressions were solved."""

import numpy as np
import pytest
import torch
from torch import Tensor

from fairbandit.conformance import Scattered
from fairbandit.parts import Outcomes, ThompsonRidge
from fairbandit.streams import Purpose, Streams
from tests import support
from tests.parts.test_estimators import B, D, bound, drawn, part


def expected(outcomes: Outcomes, t: int, n: int, scale: float, regularization: float) -> Tensor:
    """θ̂ + v·L⁻ᵀz of round t after n training rounds, (B, d)."""
    z = Streams(3, range(B))[Purpose.ESTIMATOR].normal(t, 1, D)[:, 0].numpy()
    theta = []
    for b in range(B):
        x, r = outcomes.contexts[b, :n].numpy(), outcomes.rewards[b, :n].numpy()
        V = x.T @ x + regularization * np.eye(D)
        spread = np.linalg.solve(np.linalg.cholesky(V).T, z[b])
        theta.append(np.linalg.solve(V, x.T @ r) + scale * spread)
    return torch.from_numpy(np.array(theta))


@pytest.mark.parametrize("regularization", [1e-5, 0.1, 10.0])
@pytest.mark.parametrize("blocks", [[40], [1, 2, 3, 9, 10, 31, 40]], ids=["one", "many"])
def test_the_formula(blocks: list[int], regularization: float) -> None:
    """Rounds may share training rounds; each has a model of its own."""
    outcomes, scale = drawn(40), 0.7
    ridge = ThompsonRidge(scale=scale, regularization=regularization)
    bound(ridge)
    done, solved = 0, set()
    for last in blocks:
        n_train = [n for n in range(done, last + 1) for _ in range(2)]
        rounds = torch.arange(len(n_train)) + 2 * done + 5
        new = part(outcomes, done, last)
        model, of_round = ridge.models(rounds, torch.tensor(n_train), new)
        assert of_round.tolist() == list(range(len(rounds)))
        for u, (t, n) in enumerate(zip(rounds.tolist(), n_train, strict=True)):
            theta = expected(outcomes, t, n, scale, regularization)
            torch.testing.assert_close(model.parameters[0][:, u], theta, rtol=1e-6, atol=1e-6)
        solved.add(ridge._solved is None)
        ridge.commit(last, new)
        done = last
    assert len(solved) == min(len(blocks), 2)  # from a root of the rows first, then from sums


def test_without_spread_it_is_greedy() -> None:
    found = support.actions(support.policy("lin_ts", scale=0.0), Scattered(), 300, replicas=3)
    assert torch.equal(found, support.actions(support.policy("greedy"), Scattered(), 300, 3))

"""The λ that maximises the marginal likelihood beside densities, and plays that depend on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal, norm

from fairbandit import FairbanditError
from fairbandit.estimators.evidence import DECADES, likeliest
from fairbandit.policy.build import build_policy
from fairbandit.registry import create
from tests import support

AUTO = {"regularization": "auto"}


def by_densities(x: Any, r: Any) -> float:
    """The λ of the grid with the largest density of the rewards, for the most likely σ²."""
    n, values = len(r), []
    penalties = (x**2).mean() * 10.0 ** DECADES.numpy()
    for penalty, decade in zip(penalties, DECADES.numpy(), strict=True):
        shape = np.eye(n) + x @ x.T / penalty
        variance = r @ np.linalg.solve(shape, r) / n
        density = multivariate_normal(np.zeros(n), variance * shape).logpdf(r)
        values.append(density + norm(0, 2).logpdf(decade))
    return float(penalties[int(np.argmax(values))])


@pytest.mark.parametrize("n", [3, 30, 100])
@pytest.mark.parametrize("noise", [0.1, 3.0, 100.0])
def test_the_penalty_has_the_largest_density(n: int, noise: float) -> None:
    draws = np.random.default_rng(n)
    x = draws.normal(size=(n, 5)) * [1, 2, 0.1, 1, 5]
    r = x @ draws.normal(size=5) + noise * draws.normal(size=n)
    rows = torch.from_numpy(np.column_stack([r, x]))
    found = likeliest(rows.T @ rows, torch.tensor(float(n), dtype=torch.float64))
    assert float(found) == pytest.approx(by_densities(x, r), rel=1e-9)


def test_scores_are_those_of_ridge_with_this_penalty() -> None:
    """In each round of a play, by a loop over the rounds; pools have empty slots, too."""
    estimator = {"name": "ridge", "noise": 0.0, **AUTO}
    chosen = build_policy({"name": "greedy", "estimator": estimator})
    world, rounds = support.environment("census_ethnicity", root="sample"), 25
    draws = support.draws(world, rounds, 0)
    actions = support.actions(chosen, world, rounds)[0].tolist()
    for t in range(1, rounds):
        x = draws.contexts[range(t), actions[:t]]
        r = draws.rewards[range(t), actions[:t]]
        penalty = by_densities(x, r)
        theta = np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ r)
        scores = np.where(draws.groups[t] >= 0, draws.contexts[t] @ theta, -np.inf)
        assert scores[actions[t]] == pytest.approx(scores.max(), abs=1e-6)


def test_another_word_is_refused() -> None:
    with pytest.raises(FairbanditError, match="above 0 and finite, or auto"):
        create("estimator", {"name": "ridge", "regularization": "some"})

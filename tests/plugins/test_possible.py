"""The estimator of the guide that refits all past outcomes, beside a literal loop."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fairbandit import Policy, build
from fairbandit.registry.plugins import load_plugins
from fairbandit.selectors import Ranked, Selection
from tests import literal, support
from tests.docs.pages import GUIDES


@pytest.fixture(autouse=True)
def _loaded(clean, tmp_path_factory, monkeypatch):
    folders = [guide.write(tmp_path_factory.mktemp(guide.name)) for guide in GUIDES]
    monkeypatch.setenv("FAIRBANDIT_PLUGINS", ":".join(map(str, folders)))
    load_plugins()


def policy_of(**parts: Any) -> Policy:
    """A policy from plain data."""
    made = build(parts)
    assert isinstance(made, Policy)
    return made


def listen(policy: Policy) -> list[tuple[Ranked, Selection]]:
    """What the selector of a policy is asked and answers, from now on."""
    asked: list[tuple[Ranked, Selection]] = []
    select = policy.selector.select

    def listening(ranked: Ranked, picks: int = 1) -> Selection:
        asked.append((ranked, select(ranked, picks)))
        return asked[-1][1]

    policy.selector.select = listening  # type: ignore[method-assign]
    return asked


def kernel(x: Any, g: Any, y: Any, h: Any, length: float, across: float) -> Any:
    """k of one context with rows of others."""
    return np.exp(-((y - x) ** 2).sum(1) / (2 * length**2)) * np.where(h == g, 1.0, across)


def literal_kernel_ridge(
    draws: literal.Draws, rounds: int, regularization: float, length: float, across: float
) -> tuple[Any, Any]:
    """Greedy decisions of halves and kernel ridge, with the scores that they rest on."""
    actions: list[int] = []
    scores: list[Any] = []
    x: list[Any] = []
    g: list[Any] = []
    r: list[float] = []
    for t in range(1, rounds + 1):
        pool, groups, n = draws.contexts[t - 1], draws.groups[t - 1], (t - 1) // 2
        score = np.zeros(len(pool))
        if n > 0:
            past, of = np.array(x[:n]), np.array(g[:n])
            gram = np.array([kernel(past[i], of[i], past, of, length, across) for i in range(n)])
            weights = np.linalg.solve(gram + regularization * np.eye(n), r[:n])
            for a in range(len(pool)):
                score[a] = kernel(pool[a], groups[a], past, of, length, across) @ weights
        a = literal.pick(score, score, draws.ties[t - 1])
        actions.append(a)
        scores.append(score)
        x.append(pool[a])
        g.append(groups[a])
        r.append(draws.rewards[t - 1, a])
    return np.array(actions), np.array(scores)


def test_kernel_ridge_is_the_literal_one():
    world, length, across = support.environment("squared_skill"), 0.5, 0.3
    estimator = {"name": "kernel_ridge", "length": length, "across": across}
    policy = policy_of(split="halves", estimator=estimator, rank="identity")
    asked = listen(policy)
    actions = support.actions(policy, world, 300)[0].numpy()
    expected, scores = literal_kernel_ridge(
        support.draws(world, 300, seed=0), 300, 0.1, length, across
    )
    index: dict[int, Tensor] = {}
    for ranked, _ in asked:  # a round may be decided again: the last time counts
        index.update(zip(ranked.scored.rounds.tolist(), ranked.index.value[0], strict=True))
    last = torch.stack([index[t] for t in sorted(index)])
    np.testing.assert_allclose(last.numpy(), scores, rtol=0, atol=1e-8)
    np.testing.assert_array_equal(actions, expected)

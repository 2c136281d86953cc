"""What the contracts make possible: each part of the guides does what it is for."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fairbandit import Agent, Engine, Policy, build
from fairbandit.conformance import Scattered
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


# A non-linear estimator on all past outcomes.


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


# Confidence bounds.


def test_overlapping_intervals_are_those_of_the_formula():
    estimator = {"name": "optimistic_ridge", "exploration": 0.3}
    policy = policy_of(name="oful", estimator=estimator, selector="overlapping")
    asked = listen(policy)
    support.actions(policy, support.environment(), 60, replicas=2)
    narrower = 0
    for ranked, selection in asked:
        low, high = (bound.numpy() for bound in ranked.bounds)
        for b, n in np.ndindex(low.shape[:2]):
            may = [bool(high[b, n, k] >= low[b, n].max()) for k in range(low.shape[2])]
            share = np.array(may) / sum(may)
            np.testing.assert_allclose(selection.inclusion[b, n], share)
            narrower += not all(may)
    assert narrower > 0


# Weights by age.


def test_recent_contexts_weigh_more_as_in_the_formula():
    rank, world = {"name": "recency_cdf", "half": 5.0}, Scattered()
    policy = policy_of(split="halves", estimator="ridge", rank=rank)
    asked = listen(policy)
    support.actions(policy, world, 60, replicas=2)
    pools, compared = world.pools(1, 60), 0
    for ranked, _ in asked[-2:]:
        scored = ranked.scored
        for n, t in enumerate(scored.rounds.tolist()):
            start, stop = (int(field[n]) for field in scored.rank_window)
            thetas = scored.models.of_rounds.theta
            assert thetas is not None
            theta = thetas[:, n]
            for b, k in np.ndindex(2, world.places):
                group, score = scored.groups[b, n, k], scored.scores.value[b, n, k]
                below = every = 0.0
                for s in range(start, stop):  # round s + 1
                    for x, g in zip(pools.contexts[b, s], pools.groups[b, s], strict=True):
                        weight = float(g == group) / (1 + (t - s - 1) / 5)
                        every += weight
                        below += weight * float(x @ theta[b] <= score + 1e-12)
                if group >= 0 and every > 0:
                    assert float(ranked.index.value[b, n, k]) == pytest.approx(below / every)
                    compared += 1
    assert compared > 50


# Turns.


def assert_turns(pools: Any, picked: Any, groups: int) -> None:
    """Each pick is of a group of its pool that was picked least often before."""
    counts = [0] * groups
    for pool, group in zip(pools, picked, strict=True):
        assert counts[group] == min(counts[other] for other in pool if other >= 0)
        counts[group] += 1


@pytest.mark.parametrize("name", ["greedy", "fair_greedy", "uniform"])
def test_groups_take_turns_in_play(name):
    world = Scattered()
    policy = policy_of(**support.PRESETS[name], selector="least_picked")
    run = Engine(policy, world, rounds=300, seed=0, replicas=range(2))
    picked = torch.cat([played.groups for played in run.play()], 1)
    pools = world.pools(1, 300).groups
    for replica in range(2):
        assert_turns(pools[replica].tolist(), picked[replica].tolist(), 3)


@pytest.mark.parametrize("delay", [0, 50])
def test_groups_take_turns_online(delay):
    """Rewards come late: the first 50 rounds are decided without a model."""
    draws = np.random.default_rng(0)
    agent = Agent.from_config({"name": "greedy", "selector": "least_picked"}, features=3, seed=0)
    labels, pools, groups, waiting = ["a", "b", "late"], [], [], []
    for t in range(200):
        pool = draws.choice(labels[:2] if t < 80 else labels, size=4)
        decision = agent.act(draws.normal(size=(4, 3)), pool)
        waiting.append(decision.ticket)
        pools.append([labels.index(label) for label in pool])
        groups.append(pools[-1][decision.candidate])
        if len(waiting) > delay:
            agent.update(float(groups[waiting[0] - 1]), waiting.pop(0))  # the last group pays best
    assert_turns(pools, groups, 3)
    assert len(set(groups)) == 3


def test_logged_rounds_count_as_picks():
    parts = {"name": "uniform", "selector": "least_picked"}
    agent = Agent.from_config(parts, features=1, groups=2)
    agent.observe(np.ones((6, 2, 1)), [[0, 1]] * 6, [0] * 6, [1.0] * 6)
    picks = [agent.act([[1.0], [1.0]], [0, 1]).candidate for _ in range(6)]
    assert picks == [1] * 6


# Rewards that are not linear, and a truth that is known.


def test_whoever_knows_a_truth_that_is_not_linear_has_no_regret():
    for name, regret in (("gmf", "fair_regret"), ("optimal", "standard_regret")):
        world = support.environment("squared_skill")
        run = Engine(support.policy(name), world, rounds=1000, seed=0, replicas=range(3))
        for played in run.play():
            assert float(getattr(played, regret).abs().max()) <= 1e-15

"""Scores that tie in exact arithmetic tie, however they were computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fairbandit import Agent, Policy
from fairbandit.environments import Environment, Pools
from fairbandit.estimators import regressions
from fairbandit.policy.build import build_policy
from fairbandit.streams import Purpose, Streams
from tests import support
from tests.exact import Uneven

RIDGE: dict[str, Any] = {"name": "ridge", "noise": 0.0}
GREEDY = {"split": "full", "estimator": RIDGE, "rank": "identity"}

LASTING: dict[str, dict[str, Any]] = {
    **{name: {"name": name} for name in ("greedy", "oful", *support.NOTIONS)},
    "fair_greedy without noise": {**GREEDY, "split": "halves", "rank": "empirical_cdf"},
    "tradeoff": {**GREEDY, "rank": "tradeoff"},
    "group_ridge": {**GREEDY, "estimator": "group_ridge"},
    "a tiny regularization": {**GREEDY, "estimator": {**RIDGE, "regularization": 1e-8}},
}
"""Policies without injected noise."""


class Categories(Environment):
    """Two features of three categories each, one-hot, and an intercept; rewards 0 and 1."""

    def __init__(self) -> None:
        self.features, self.places, self.group_names = 7, 6, ("one", "other")
        self.truth = None

    def _pools(self, first: int, count: int) -> Pools:
        drawn = self.streams[Purpose.POOLS].uniform(first, count, 4 * self.places)
        one, two, group, luck = drawn.unflatten(2, (self.places, 4)).unbind(3)
        levels = [torch.nn.functional.one_hot((3 * part).long(), 3) for part in (one, two)]
        contexts = torch.cat([*levels, torch.ones_like(levels[0][..., :1])], 3).double()
        chance = (contexts @ torch.arange(7.0).double()) / 20
        return Pools(contexts, (2 * group).long(), (luck < chance).double(), chance, chance)


def table(folder: Path) -> Environment:
    """A table of categories and of numbers with one decimal, with a reward of 0 or 1."""
    draws, rows = np.random.default_rng(0), ["group,school,work,hours,hired"]
    for _ in range(150):
        row = [draws.choice(list(names)) for names in ("ab", "xyz", "pqr")]
        rows.append(",".join([*row, f"{draws.integers(0, 4) / 10}", str(draws.integers(0, 2))]))
    path = folder / "people.csv"
    path.write_text("\n".join(rows) + "\n")
    columns = {"school": ["x", "y", "z"], "work": ["p", "q", "r"], "hours": None}
    how: dict[str, Any] = {"pool": "random", "candidates": 6, "rewards": "column"}
    return support.environment(
        "table", path=str(path), group="group", reward="hired", columns=columns, **how
    )


def chosen(policy: Policy, world: Environment, rounds: int) -> tuple[Tensor, list[int], Pools]:
    """The probabilities of all places in replica 0, (T, K), the picks, and the pools."""
    agent = Agent(policy, features=world.features, groups=len(world.group_names), seed=0)
    world.bind(Streams(0, [0]))
    pools, found, picks = world.pools(1, rounds), [], []
    for x, g, r in zip(pools.contexts[0], pools.groups[0], pools.rewards[0], strict=True):
        found.append(agent.explain(x, g).probabilities)
        picks.append(agent.act(x, g).candidate)
        agent.update(float(r[picks[-1]]))
    return torch.stack(found), picks, pools


@pytest.mark.parametrize("regularization", [1.0, 0.1, 1e-8])
def test_greedy_in_rational_numbers(regularization: float) -> None:
    """Exactly those are the best who would be, were nothing rounded."""
    estimator = {**RIDGE, "regularization": regularization}
    policy, tied = build_policy({**GREEDY, "estimator": estimator}), 0
    found, picks, pools = chosen(policy, Categories(), rounds=60)
    X, r = pools.contexts[0].numpy(), pools.rewards[0].numpy()
    for t, pool in enumerate(X):
        before = range(t), picks[:t]
        theta = Uneven(X[before], r[before], regularization).theta
        scores = [sum(c for one, c in zip(x, theta, strict=True) if one) for x in pool]
        best = [score == max(scores) for score in scores]
        assert (found[t] > 0).tolist() == best, t
        tied += len(np.unique(pool[best], axis=0)) > 1
    assert tied >= 5


def test_a_tie_by_hand() -> None:
    """Rows (1, 1), (0, 1), (1, 1) with rewards 0, 1, 1 give θ = (0, ½) for λ = 1."""
    estimator = {**RIDGE, "regularization": 1.0}
    agent = Agent.from_config({**GREEDY, "estimator": estimator}, features=2, groups=1)
    agent.observe([[[1, 1]], [[0, 1]], [[1, 1]]], [[0]] * 3, [0, 0, 0], [0, 1, 1])
    assert agent.explain([[0, 0], [1, 0]], [0, 0]).probabilities.tolist() == [0.5, 0.5]


POOLED = {
    name: config
    for name, config in {**support.PRESETS, **LASTING}.items()
    if not build_policy(config).selector.sequential and "truth" not in build_policy(config).needs
}
"""The policies that see a pool at once; of twins that come in turn, the first has the places."""


@pytest.mark.parametrize("name", POOLED)
def test_twins_have_equal_chances(name: str) -> None:
    """Whatever kernels score a pool, in which two candidates are the same to the last bit."""
    config = POOLED[name]
    draws, d, k = np.random.default_rng(0), 11, 37
    agent = Agent.from_config(config, features=d, groups=2)
    for t in range(16):
        x, labels = draws.normal(size=(k, d)), draws.integers(0, 2, k)
        of = draws.integers(0, 5, 20)  # a quarter of them are the best one's twins, more or less
        x[-20:], labels[-20:] = x[of], labels[of]
        shares = agent.explain(x, labels)
        if t > 3:  # until then some draw a rank
            assert shares.probabilities[-20:].tolist() == shares.probabilities[of].tolist()
            assert shares.index[-20:].tolist() == pytest.approx(
                shares.index[of].tolist(), rel=1e-12
            )
        agent.update(float(x[agent.act(x, labels).candidate].sum()))


@pytest.mark.parametrize("name", ["empirical_cdf", "recent_cdf"])
def test_an_absurd_candidate_does_not_make_others_tie(name: str) -> None:
    """A candidate of 10¹⁵ that is not picked, and that no rank window holds later on."""
    rank = {"name": name, "size": 20} if name == "recent_cdf" else name
    policy = {"split": "halves", "estimator": RIDGE, "rank": rank}
    agent = Agent.from_config(policy, features=3, groups=["a"])
    draws, apart = np.random.default_rng(0), 0
    for t in range(200):
        x = draws.normal(size=(4, 3))
        if t == 50:
            x[0] = (-1e15, 0, 0)
        decision = agent.act(x, ["a"] * 4)
        assert t != 50 or decision.candidate
        agent.update(float(x[decision.candidate, 0] + 0.1 * draws.normal()), decision.ticket)
        if t >= 100:
            pair = agent.explain(draws.normal(size=(2, 3)), ["a", "a"])
            apart += float(pair.probabilities.max()) == 1
    assert apart >= 90


@pytest.mark.parametrize(("offset", "regularization", "notices"), [(1e3, 1e-3, 0), (1e5, 0.1, 1)])
def test_a_notice_says_to_standardise_where_the_rule_does_not_hold(
    offset: float, regularization: float, notices: int, caplog: pytest.LogCaptureFixture
) -> None:
    regressions._warn.cache_clear()
    estimator = {"name": "ridge", "regularization": regularization}
    agent = Agent.from_config({"name": "greedy", "estimator": estimator}, features=9, groups=["a"])
    draws = np.random.default_rng(0)
    for _ in range(300):
        x = draws.normal(size=(3, 9)).round(2) + offset
        decision = agent.act(x, ["a"] * 3)
        agent.update(float(x[decision.candidate, 0]) - offset, decision.ticket)
    said = [record.message for record in caplog.records if "standardise" in record.message]
    assert len(said) == notices

"""Estimators that read the order of rewards: against SciPy, under distortions, in every play."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.stats import norm, rankdata
from torch import Tensor

from fairbandit import Agent, FairbanditError, build
from fairbandit.estimators.orders import pairs, probit_fit
from fairbandit.history import Outcomes, Problem
from fairbandit.registry import create
from fairbandit.streams import Purpose, Streams
from tests import support

D, N, G, B = 3, 60, 3, 2
POLICIES = ("order_greedy", "order_scores")
PROBLEM = Problem(features=D, groups=G, streams=Streams(3, range(B)))

DISTORTIONS: list[list[str]] = [
    ["identity"],
    ["identity", "exp", "cube", "tanh"],
    ["tanh", "root", "sinh", "logistic"],
    ["cube"],
    ["exp", "exp", "root", "identity"],
]


def outcomes(round_to: float = 1.0) -> Outcomes:
    """Several picks a round, empty slots (group −1), and equal rewards."""
    draws = np.random.default_rng(0)
    rounds = torch.from_numpy(np.sort(draws.integers(1, N // 2, N)))
    contexts, groups = draws.normal(size=(B, N, D)), draws.integers(-1, G, (B, N))
    rewards = np.round(contexts.sum(2) + draws.normal(size=(B, N)), 1) * round_to
    empty = groups < 0
    contexts[empty], rewards[empty] = 0.0, 0.0
    return Outcomes(rounds, *map(torch.from_numpy, (contexts, groups, rewards)))


def model(name: str, known: Outcomes, at: list[int], **keys: Any) -> Tensor:
    made: Any = create("estimator", {"name": name, **keys})
    return made._models(PROBLEM, made.init(PROBLEM), [n + 1 for n in at], at, known).theta


def test_normal_scores_are_least_squares_on_scores_of_ranks() -> None:
    known, at, penalty = outcomes(), [0, 2, 9, 20, N], 0.5
    found = model("normal_scores", known, at, regularization=penalty)
    for b in range(B):
        for place, n in enumerate(known.counts(at)):
            x, g, r = (part[b, :n].numpy() for part in known[1:])
            rows, targets = [np.sqrt(penalty) * np.eye(D)], [np.zeros(D)]
            for group in range(G):
                own = x[g == group] - x[g == group].mean(0) if (g == group).any() else x[:0]
                size = np.sqrt((own**2).sum(1).mean()) if len(own) > 1 else 1.0
                rows.append(own / size)
                targets.append(norm.ppf((rankdata(r[g == group]) - 0.5) / max(len(own), 1)))
            literal = np.linalg.lstsq(np.concatenate(rows), np.concatenate(targets))[0]
            np.testing.assert_allclose(found[b, place], literal, atol=1e-12)


def test_pairs_are_fitted_by_the_largest_likelihood() -> None:
    known, at, penalty, partners = outcomes(), [0, 3, 9, N], 0.5, 4
    found = model("pairwise_probit", known, at, regularization=penalty, partners=partners)
    draws = PROBLEM.streams[Purpose.ESTIMATOR].uniform(1, N, partners).numpy()
    for b in range(B):
        for place, n in enumerate(known.counts(at)):
            x, g, r = (part[b, :n].numpy() for part in known[1:])
            order = np.lexsort((r, known.rounds[:n].numpy()))  # of a round, by reward
            x, g, r = x[order], g[order], r[order]
            rows, weights = [], list[float]()
            for i in np.flatnonzero(g >= 0):
                earlier = np.flatnonzero(g[:i] == g[i])
                m = min(partners, len(earlier))
                for j in range(m):
                    u = draws[b, int(known.rounds[i]) - 1, j]
                    other = earlier[int((j + u) * len(earlier) / m)]
                    rows.append(np.sign(r[i] - r[other]) * (x[i] - x[other]))
                    weights.append(len(earlier) / m / ((g == g[i]).sum() - 1) * (r[i] != r[other]))
            z, w = np.array(rows).reshape(-1, D), np.array(weights)

            def loss(theta: Any, z: Any = z, w: Any = w) -> Any:
                return penalty / 2 * theta @ theta - w @ norm.logcdf(z @ theta)

            literal = minimize(loss, np.zeros(D), method="BFGS", options={"gtol": 1e-7}).x
            np.testing.assert_allclose(found[b, place], literal, atol=1e-6)


def test_few_earlier_outcomes_are_all_partners() -> None:
    groups = torch.zeros(1, 5, dtype=torch.int64)
    rewards = torch.arange(5.0, dtype=torch.float64)[None]
    partner, sign, stands_for = pairs(groups, rewards, torch.full((1, 5, 4), 0.999).double())
    assert [sorted(p[s != 0].tolist()) for p, s in zip(partner[0], sign[0], strict=True)] == [
        list(range(k)) for k in range(5)
    ]
    assert stands_for.tolist() == [[0, 1, 1, 1, 1]]


def test_what_does_not_converge_says_so() -> None:
    rows = torch.full((1, 2, 2), 1e200, dtype=torch.float64)
    with pytest.raises(FairbanditError, match="not converged after 100 steps"):
        probit_fit(rows, torch.ones(1, 1, 2).double(), 1.0)


@pytest.mark.parametrize("name", ["pairwise_probit", "normal_scores"])
def test_equal_rewards_teach_nothing(name: str) -> None:
    assert not model(name, outcomes(round_to=0.0), [N]).any()


@pytest.mark.parametrize("name", POLICIES)
def test_no_distortion_changes_a_decision(name: str) -> None:
    found = []
    for functions in DISTORTIONS:
        world = support.environment("distorted", functions=functions)
        found.append(support.actions(build({"name": name}), world, 120, 3))
    assert all(torch.equal(found[0], other) for other in found[1:])
    greedy: Any = build({"name": "greedy"})
    worlds = [support.environment("distorted", functions=each) for each in DISTORTIONS[:2]]
    one, other = (support.actions(greedy, world, 120, 3) for world in worlds)
    assert not torch.equal(one, other)  # they do change what ridge decides


@pytest.mark.parametrize(("name", "picks"), list(zip(POLICIES, [1, 3], strict=True)))
def test_blocks_rounds_replicas_and_late_agents_decide_alike(name: str, picks: int) -> None:
    world: Any = support.environment("census_ethnicity", root="sample")
    chosen: Any = build({"name": name})
    found = support.actions(chosen, world, 50, 3, picks=picks)
    assert torch.equal(found, support.actions(chosen, world, 50, 3, picks=picks, at_once=1))
    assert torch.equal(found[2:], support.actions(chosen, world, 50, [2], picks=picks))
    draws, features, groups = support.draws(world, 50, 0), world.features, len(world.group_names)
    in_time, *late = (Agent(chosen, features=features, groups=groups) for _ in range(3))
    for t, places in enumerate(found[0].view(50, picks).tolist(), 1):
        pool = draws.contexts[t - 1], draws.groups[t - 1]
        decided = in_time.act(*pool, picks=picks).picks
        assert list(decided) == [place for place in places if place >= 0]
        in_time.update({place: float(draws.rewards[t - 1, place]) for place in decided})
    for first, last in ((0, 15), (15, 30)):  # rewards of 15 rounds come late, in two orders
        tickets = list(range(first + 1, last + 1))
        for agent, order in zip(late, (tickets, tickets[::-1]), strict=True):
            picked = {}
            for t in tickets:
                picked[t] = agent.act(draws.contexts[t - 1], draws.groups[t - 1], picks=picks).picks
            for t in order:
                agent.update({p: float(draws.rewards[t - 1, p]) for p in picked[t]}, t)
    shown = [agent.explain(draws.contexts[30], draws.groups[30]) for agent in late]
    assert torch.equal(torch.as_tensor(shown[0].scores), torch.as_tensor(shown[1].scores))
    assert bool(torch.as_tensor(shown[0].scores).any())

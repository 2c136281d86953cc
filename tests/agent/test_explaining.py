"""What `explain` says is what `act` then does, and it changes nothing."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fairbandit import Agent, Explanation, Truth, registry
from tests import support
from tests.agent import worlds

NAMES = [*support.PRESETS, *support.NOTIONS]


def saved(agent: Agent, path: Path) -> bytes:
    """The bytes of a file."""
    agent.save(path)
    return path.read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_every_policy_does_what_it_says(name: str, tmp_path: Path) -> None:
    """On pools with ties, one of whose groups is new when it comes; few rewards are known."""
    world, shared = worlds.Coarse(), 0
    pools = worlds.pools_of(world, 260, 0)  # more than are decided together
    contexts, labels = pools.contexts[0].numpy(), pools.groups[0].tolist()
    agent = Agent.from_config(name, features=3, groups=2, seed=0, truth=world.truth)
    for t in range(260):
        compare = t % 99 == 0 or (2 in labels[t] and 2 not in agent.groups)
        before = saved(agent, tmp_path / "agent") if compare else None
        probabilities = agent.explain(contexts[t], labels[t]).probabilities.tolist()
        assert before is None or saved(agent, tmp_path / "agent") == before
        decision = agent.act(contexts[t], labels[t])
        assert probabilities[decision.candidate] == decision.propensity > 0
        assert max(probabilities) < 1 or decision.propensity == 1
        shared += decision.propensity < 1
        if t % 4 == 0:
            agent.update(float(pools.rewards[0, t, decision.candidate]))
    assert shared > 1  # there are ties after the first pool, too


@pytest.mark.parametrize(
    ("estimator", "rank"),
    [("ridge", rank) for rank in registry.names("rank")]
    + [(estimator, "recent_cdf") for estimator in registry.names("estimator")],
)
def test_an_agent_that_was_asked_decides_like_its_twin(estimator: str, rank: str) -> None:
    """With pools of any size, groups that come late, rewards out of order, and a refresh."""
    given = worlds.stories(4, 24)
    truth = Truth(torch.ones(3), lambda groups, values, rounds: torch.special.ndtr(values + groups))
    config = {"split": "halves", "estimator": estimator, "rank": rank, **support.beside(rank)}
    refresh = 1.2 if rank == "recent_cdf" else None
    agent, twin = (
        Agent.from_config(config, features=3, truth=truth, refresh=refresh) for _ in range(2)
    )
    for t, (x, labels) in enumerate(zip(given.contexts, given.labels, strict=True), 1):
        found, other = agent.explain(x, labels), agent.explain(-x, ["other", *labels[1:]])
        assert found.groups == tuple(labels)
        assert other.groups == ("other", *labels[1:])
        for tensor in vars(found).values():  # they are the caller's
            if isinstance(tensor, torch.Tensor) and tensor is not found.probabilities:
                tensor.zero_()
        decision = agent.act(x, labels)
        assert float(found.probabilities[decision.candidate]) == decision.propensity
        assert twin.act(x, labels) == decision
        for one in (agent, twin):
            if t % 3:
                one.update(1.0)
            elif t > 5:
                one.update(2.0, one.pending[0])
    assert agent.groups == twin.groups
    assert worlds.held(agent) == worlds.held(twin)


def asked(config: Any, rounds: int) -> tuple[Explanation, worlds.Stories]:
    """What an agent says of the pool after so many rounds, with the history that it has."""
    given = worlds.stories(1, rounds + 1)
    given.comes = [float(t) for t in range(1, rounds + 2)]
    agent, last = Agent.from_config(config, features=3), -1
    past = worlds.Stories(*(part[:rounds] for part in vars(given).values()))
    worlds.live(agent, past)
    return agent.explain(given.contexts[last], given.labels[last]), given


def test_what_it_says() -> None:
    """Scores, the rank window's counts and the index, against what they are made of."""
    found, given = asked("fair_greedy", 40)
    x, labels = given.contexts[-1], given.labels[-1]
    assert found.theta is not None
    np.testing.assert_allclose(found.scores, x @ found.theta.numpy(), rtol=1e-12)
    theta = found.theta.numpy()
    shares, counts = [], []
    for context, label in zip(x, labels, strict=True):
        past = [
            float(other @ theta)
            for pool, names in zip(given.contexts[20:40], given.labels[20:40], strict=True)
            for other, name in zip(pool, names, strict=True)
            if name == label
        ]
        counts.append(len(past))
        shares.append(np.mean([score <= context @ theta + 1e-12 for score in past]))
    assert found.past_count is not None
    assert found.past_count.tolist() == counts
    np.testing.assert_allclose(found.index, shares, rtol=1e-12)
    assert (found.probabilities > 0).tolist() == (found.index == found.index.max()).tolist()
    assert found.lower is found.upper is found.index_lower is found.index_upper is None


def test_bounds_and_no_theta() -> None:
    found, _ = asked("oful", 40)
    assert found.lower is not None
    assert found.upper is not None
    assert bool((found.lower < found.upper).all())
    assert torch.equal(found.upper, found.scores)
    for of_index, of_score in (
        (found.index, found.scores),
        (found.index_lower, found.lower),
        (found.index_upper, found.upper),
    ):
        assert of_index is not None
        assert torch.equal(of_index, of_score)
    assert found.theta is found.past_count is None


@pytest.mark.parametrize("name", ["fair_greedy", "oful"])
def test_before_the_first_reward(name: str) -> None:
    """Nothing is known, and everything may be true."""
    agent = Agent.from_config(name, features=2)
    found = agent.explain([[1.0, 2.0], [3.0, 4.0]], ["a", "b"])
    assert found.scores.tolist() == found.index.tolist() == [0, 0]
    assert found.probabilities.tolist() == [0.5, 0.5]
    if name == "oful":
        assert found.lower is not None
        assert found.lower.tolist() == [-torch.inf] * 2
    else:
        assert found.past_count is not None
        assert found.past_count.tolist() == [0, 0]
    assert agent.groups == ()
    assert agent.rounds == 0


def test_a_printed_explanation_is_a_table() -> None:
    given = {"split": "full", "estimator": "ridge", "rank": "empirical_cdf"}
    found, _ = asked(given, 3)
    assert repr(found).splitlines() == [
        "candidate  group   score   index  past  probability",
        "        0    'a'  0.9165    0.75    12            0",
        "        1    'a'  0.7127  0.6667    12            0",
        "        2    'a'   -5.74       0    12            0",
        "        3    'a'   1.842    0.75    12            0",
        "        4    'a'   7.786       1    12            1",
    ]

"""What `explain` says is what `act` then does, and it changes nothing."""

from typing import Any

import numpy as np
import pytest
import torch

from fairbandit import Agent, Explanation
from tests import support
from tests.agent import worlds

CONFIGS: dict[str, Any] = {
    **worlds.deployable({name: name for name in (*support.PRESETS, *support.NOTIONS)}),
    "a lazy model": {**support.PRESETS["fair_greedy"], "rank": "recent_cdf", "refresh": 1.2},
}


@pytest.mark.parametrize("name", support.some(CONFIGS, 3))
def test_an_agent_that_was_asked_decides_like_its_twin(name: str) -> None:
    """With pools of any size, groups that come late, rewards out of order, and a refresh."""
    given, options = worlds.stories(4, 40), {"features": 3, "seed": 1}
    agent, twin = (Agent.from_config(CONFIGS[name], **options) for _ in range(2))
    for t, (x, labels) in enumerate(zip(given.contexts, given.labels, strict=True), 1):
        found, other = agent.explain(x, labels), agent.explain(-x, ["other", *labels[1:]])
        labels = ["unknown" if label is None else label for label in labels]
        assert found.groups == tuple(labels)
        assert other.groups == ("other", *labels[1:])
        for tensor in vars(found).values():  # they are the caller's
            if isinstance(tensor, torch.Tensor) and tensor is not found.probabilities:
                tensor.zero_()
        decision = agent.act(x, labels)
        assert float(found.probabilities[decision.candidate]) == decision.propensity > 0
        assert twin.act(x, labels) == decision
        for one in (agent, twin):
            if t % 3:
                one.update(1.0)
            elif t > 5:
                one.update(2.0, one.pending[0])
    assert worlds.held(agent) == worlds.held(twin)


def asked(config: Any, rounds: int) -> tuple[Explanation, worlds.Stories]:
    """What an agent says of the pool after so many rounds, and all that it has met."""
    given = worlds.stories(1, rounds + 1)
    given.comes = [float(t) for t in range(1, rounds + 2)]
    agent = Agent.from_config(config, features=3)
    worlds.live(agent, worlds.spans(given, rounds)[0])
    return agent.explain(given.contexts[-1], given.labels[-1]), given


def test_what_it_says() -> None:
    """Scores, the rank window's counts and the index, against what they are made of."""
    found, given = asked("fair_greedy", 40)
    x, labels = given.contexts[-1], given.labels[-1]
    assert found.theta is not None
    theta = found.theta.numpy()
    np.testing.assert_allclose(found.scores, x @ theta, rtol=1e-12)
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


@pytest.mark.parametrize("rounds", [0, 40])
def test_bounds_and_no_theta(rounds: int) -> None:
    """Before the first reward nothing is known, and everything may be true."""
    found, _ = asked("oful", rounds)
    assert found.lower is not None
    assert found.upper is not None
    assert bool((found.lower < found.upper).all())
    assert bool(found.lower.isinf().all()) == (rounds == 0)
    expected = found.upper if rounds else torch.zeros_like(found.upper)
    for of_index, of_score in (
        (found.index, expected),
        (found.index_lower, found.lower),
        (found.index_upper, found.upper),
    ):
        assert of_index is not None
        assert torch.equal(of_index, of_score)
    assert found.theta is found.past_count is None


def test_scores_from_few_rewards_have_a_note() -> None:
    """A round trains on the first half of the rounds before; the reward of round 2 never comes."""
    agent = Agent.from_config("fair_greedy", features=3, groups=["a"])
    draws, told = np.random.default_rng(0), list[int]()
    for t in range(1, 10):
        pool = draws.normal(size=(4, 3)), ["a"] * 4
        found, count = agent.explain(*pool), sum(s <= (t - 1) // 2 for s in told)
        note = f"The reward model has {count} reward{'s' * (count > 1)} to learn from, fewer than "
        note += "its 3 features: the scores are rough."
        if not count:
            note = "The reward model has learned from no reward yet: all candidates tie."
            assert found.probabilities.tolist() == [0.25] * 4
        assert found.note == note * (count < 3)
        assert str(found).splitlines()[5:] == [note] * (count < 3)
        agent.act(*pool)
        if t != 2:
            agent.update(1.0)
            told.append(t)


def test_no_pools_have_no_probabilities() -> None:
    agent = Agent.from_config("fair_greedy", features=2, groups=["a"])
    pools, codes = np.zeros((2, 3, 2)), np.zeros((2, 3), np.int64)
    assert agent.probabilities(pools, codes, ["a"]).tolist() == [[1 / 3] * 3] * 2
    assert agent.probabilities(pools[:0], codes[:0], ["a"]).shape == (0, 3)

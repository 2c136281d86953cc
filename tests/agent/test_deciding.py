"""An agent decides as the simulation does, and as Fair-Greedy is written where it cannot."""

import itertools

import numpy as np
import pytest

from fairbandit import Agent, FairbanditError, registry
from fairbandit.building import build_policy
from fairbandit.conformance import Scattered
from fairbandit.plugins import load_plugins
from fairbandit.streams import CHUNK_ROUNDS
from tests import support
from tests.agent import worlds

load_plugins()

ROUNDS = 70


CONFIGS = {**support.PRESETS, **worlds.every_part("halves"), **worlds.every_part("full")}


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize(
    "world", [support.environment(), worlds.Coarse()], ids=["simulation", "ties"]
)
def test_every_policy_decides_as_in_the_simulation(name, world):
    config, rounds = CONFIGS[name], 150 if name in support.PRESETS else ROUNDS
    theirs = support.actions(build_policy(config), world, rounds, replicas=2, seed=4)[0].tolist()
    pools = worlds.pools_of(world, rounds, 4)
    assert worlds.play(worlds.agent_for(world, config, 4), pools) == theirs


EMPTY = {**support.PRESETS, **support.NOTIONS, **worlds.every_part("halves")}


@pytest.mark.parametrize("name", EMPTY)
def test_a_pool_without_its_empty_places(name):
    """Places that are empty in the simulation are not there online, and draw nothing there."""
    world, config = Scattered(rare_after=30), EMPTY[name]
    theirs = support.actions(build_policy(config), world, ROUNDS, seed=1)[0]
    pools = worlds.pools_of(world, ROUNDS, 1)
    agent, picked = worlds.agent_for(world, config, 1), []
    for t in range(ROUNDS):
        here = (pools.groups[0, t] >= 0).nonzero()[:, 0]
        decision = agent.act(pools.contexts[0, t, here], pools.groups[0, t, here])
        place = int(here[decision.candidate])
        agent.update(pools.rewards[0, t, place])
        picked.append(place)
    assert picked == theirs.tolist()


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("refresh", [None, 1.3, 3.0])
def test_sizes_labels_newcomers_and_delays_as_written(seed, refresh):
    given = worlds.stories(seed, 90)
    agent = Agent.from_config("fair_greedy", features=3, seed=seed, refresh=refresh)
    assert worlds.live(agent, given) == worlds.fair_greedy(given, seed, refresh)
    assert set(agent.groups) == {"a", 7, ("x", 1), None, "ÿ", 2.5}
    missing = [t for t, comes in enumerate(given.comes, 1) if comes > 90]
    assert list(agent.pending) == missing


@pytest.mark.parametrize("estimator", ["ridge", "optimistic_ridge"])
@pytest.mark.parametrize(
    "rank",
    # the interval's width depends on the number of groups
    [rank for rank in registry.names("rank") if rank != "interval_cdf"],
)
def test_groups_known_before_or_met_later(estimator, rank):
    """A group that appears is as one that was known, and not seen."""
    given = worlds.stories(3, 60)
    names = list(dict.fromkeys(itertools.chain(*given.labels)))
    config = {"split": "halves", "estimator": estimator, "rank": rank}
    later, before = (
        Agent.from_config(config, features=3, groups=known, truth=worlds.TRUTH)
        for known in ((), names)
    )
    assert worlds.live(later, given) == worlds.live(before, given)
    assert later.groups == before.groups == tuple(names)
    assert worlds.held(later) == worlds.held(before)


@pytest.mark.parametrize("refresh", [None, 1.5])
@pytest.mark.parametrize("rank", ["empirical_cdf", "recent_cdf", "noisy_rewards_cdf"])
@pytest.mark.parametrize("split", ["halves", "full"])
def test_observed_rounds_are_as_decided_ones(split, rank, refresh):
    """Rounds of varying size taken in at once, or decided one by one: the same model and future."""
    given = worlds.stories(11, 80)
    config = {"split": split, "estimator": "ridge", "rank": rank}
    acting, watching = (
        Agent.from_config(config, features=3, refresh=refresh, groups=["a", 7]) for _ in range(2)
    )
    given.comes = [float(t) for t in range(1, 81)]
    past, future = worlds.spans(given, 50)
    picked = worlds.live(acting, past)
    rewards = [float(r[a]) for r, a in zip(past.rewards, picked, strict=True)]
    watching.observe(past.contexts[:20], past.labels[:20], picked[:20], rewards[:20])
    watching.observe(past.contexts[20:], past.labels[20:], picked[20:], rewards[20:])
    assert watching.rounds == acting.rounds == 50
    assert watching.groups == acting.groups
    assert worlds.live(watching, future) == worlds.live(acting, future)
    found, expected = map(worlds.scores, (watching, acting))
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


def test_memory_does_not_grow(tmp_path):
    """Sums in place of rounds, the last contexts of each group, and no reward waited for long."""
    config = {
        "split": "halves",
        "estimator": "ridge",
        "rank": {"name": "recent_cdf", "size": 20},
    }
    draws = np.random.default_rng(0)

    def size(rounds: int) -> int:
        agent = Agent.from_config(config, features=5, groups=3, refresh=1.5, patience=10)
        n = rounds - 60
        x, labels = draws.normal(size=(n, 4, 5)), draws.integers(0, 3, (n, 4))
        agent.observe(x, labels, draws.integers(0, 4, n), draws.normal(size=n))
        for t in range(60):
            agent.act(x[t], labels[t])
            if t % 2:
                agent.update(1.0)
        assert len(agent.pending) <= 10
        agent.save(tmp_path / "agent")
        return (tmp_path / "agent").stat().st_size

    # all as long after the end of a chunk of rounds, when what no round reads any more is forgotten
    sizes = [size(300 + more * CHUNK_ROUNDS) for more in (0, 10, 100)]
    assert max(sizes) <= 1.2 * sizes[0]


def test_what_an_oracle_does_not_know():
    world = support.environment()
    agent = worlds.agent_for(world, "gmf", 0)
    pools = worlds.pools_of(world, 3, 0)
    worlds.play(agent, pools)
    before = worlds.held(agent)
    with pytest.raises(
        FairbanditError, match="the truth's cdf does not know group 'new', number 4"
    ):
        agent.act(pools.contexts[0, 0], [0, 1, 2, "new"])
    with pytest.raises(FairbanditError, match="does not know group 'new', number 4"):
        agent.explain(pools.contexts[0, 0], [0, 1, 2, "new"])
    assert worlds.held(agent) == before
    worlds.agent_for(world, "optimal", 0).act(pools.contexts[0, 0], [0, 1, 2, "new"])

"""An agent decides as the simulation does, and as Fair-Greedy is written where it cannot."""

import numpy as np
import pytest

from fairbandit import Agent, FairbanditError
from fairbandit.building import build_policy
from fairbandit.conformance import Scattered
from fairbandit.plugins import load_plugins
from fairbandit.streams import CHUNK_ROUNDS
from tests import support
from tests.agent import worlds

load_plugins()

ROUNDS = 70


CONFIGS = {
    **support.PRESETS,
    **support.NOTIONS,
    **worlds.every_part("halves"),
    **worlds.every_part("full"),
}

WORLDS = {
    "simulation": support.environment(),
    "ties": worlds.Coarse(),
    "empty places": Scattered(rare_after=30),
}


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("world", WORLDS)
def test_every_policy_decides_as_in_the_simulation(name, world):
    """Places that are empty in the simulation are not there online, and draw nothing there."""
    config, met = CONFIGS[name], WORLDS[world]
    theirs = support.actions(build_policy(config), met, ROUNDS, replicas=2, seed=4)[0].tolist()
    pools = worlds.pools_of(met, ROUNDS, 4)
    assert worlds.play(worlds.agent_for(met, config, 4), pools) == theirs


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("refresh", [None, 1.3, 3.0])
def test_sizes_labels_newcomers_and_delays_as_written(seed, refresh):
    given = worlds.stories(seed, 90)
    agent = Agent.from_config("fair_greedy", features=3, seed=seed, refresh=refresh)
    assert worlds.live(agent, given) == worlds.fair_greedy(given, seed, refresh)
    assert set(agent.groups) == {"a", 7, ("x", 1), None, "ÿ", 2.5}
    missing = [t for t, comes in enumerate(given.comes, 1) if comes > 90]
    assert list(agent.pending) == missing


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

    # all as long after the end of a chunk of rounds, when what no round reads any more is
    # forgotten, and all with a full sample of hashes of decisions
    sizes = [size(300 + more * CHUNK_ROUNDS) for more in (5, 10, 100)]
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

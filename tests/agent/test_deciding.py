"""An agent decides as Fair-Greedy is written, also where a simulation cannot."""

import numpy as np
import pytest

from fairbandit import Agent
from fairbandit.streams import CHUNK_ROUNDS
from tests.agent import worlds


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("refresh", [None, 1.3, 3.0])
def test_sizes_labels_newcomers_and_delays_as_written(seed, refresh):
    given = worlds.stories(seed, 90)
    agent = Agent.from_config({"name": "fair_greedy", "refresh": refresh}, features=3, seed=seed)
    assert worlds.live(agent, given) == worlds.fair_greedy(given, seed, refresh)
    assert set(agent.groups) == {"a", 7, ("x", 1), "unknown", "ÿ", 2.5}
    missing = [t for t, comes in enumerate(given.comes, 1) if comes > 90]
    assert list(agent.pending) == missing


def test_memory_does_not_grow(tmp_path):
    """Sums in place of rounds, the last contexts of each group, and no reward waited for long."""
    config = {
        "split": "full",
        "estimator": "ridge",
        "rank": {"name": "recent_cdf", "size": 20},
    }
    draws = np.random.default_rng(0)

    def size(rounds: int) -> int:
        agent = Agent.from_config(config, features=5, groups=3, patience=10)
        n = rounds - 60
        x, labels = draws.normal(size=(n, 4, 5)), draws.integers(0, 3, (n, 4))
        agent.observe(x, labels, draws.integers(0, 4, n), draws.normal(size=n))
        for t in range(60):
            agent.act(x[t], labels[t])
            if t % 2:
                agent.update(1.0)
        assert len(agent.pending) <= 10
        agent.save(tmp_path / "agent")
        return (tmp_path / "agent").stat().st_size - 16 * n  # a key of each observed round

    # all as long after the end of a chunk of rounds, when what no round reads any more is forgotten
    sizes = [size(300 + more * CHUNK_ROUNDS) for more in (5, 10, 100)]
    assert max(sizes) <= 1.2 * sizes[0]

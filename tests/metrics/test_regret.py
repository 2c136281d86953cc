"""Both regrets and counts against loops."""

import numpy as np

from fairbandit.metrics import Judge
from tests.metrics.rounds import PROBLEM, random_rounds


def test_against_loops() -> None:
    """Pools have empty places, whose rewards and ranks do not count."""
    rounds = random_rounds()
    pools = rounds.pools
    played = Judge({}, PROBLEM).judge(1, pools, rounds.selection)
    for at in np.ndindex(*played.actions.shape):
        here, a = pools.groups[at] >= 0, played.actions[at]
        assert played.standard_regret[at] == pools.expected[at][here].max() - pools.expected[at][a]
        assert played.fair_regret[at] == pools.ranks[at][here].max() - pools.ranks[at][a]
    counted = [[int((rows == group).sum()) for group in range(3)] for rows in pools.groups]
    assert played.received.tolist() == counted

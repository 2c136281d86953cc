"""Both regrets and counts against loops."""

import numpy as np

from fairbandit.conformance.metrics import judged, random_rounds
from fairbandit.metrics import FairRegret, StandardRegret, received


def test_against_loops() -> None:
    """Pools have empty places, whose rewards and ranks do not count."""
    rounds = random_rounds()
    pools, selection = rounds
    standard, fair = (one.values(judged(one, rounds)) for one in (StandardRegret(), FairRegret()))
    for at in np.ndindex(*standard.shape):
        here, a = pools.groups[at] >= 0, selection.actions[at]
        assert standard[at] == pools.expected[at][here].max() - pools.expected[at][a]
        assert fair[at] == pools.ranks[at][here].max() - pools.ranks[at][a]
    counted = [[int((rows == group).sum()) for group in range(3)] for rows in pools.groups]
    assert received(pools.groups, 3).tolist() == counted

"""Both regrets and counts against loops."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairbandit.environments import Pools
from fairbandit.metrics import FairRegret, Judged, StandardRegret, received


@given(st.integers(0, 2**32 - 1))
def test_against_loops(seed: int) -> None:
    draws = np.random.default_rng(seed)
    b, n, k, g = 2, 5, 4, 3
    groups = draws.integers(-1, g, (b, n, k))
    groups[..., 0] = draws.integers(0, g, (b, n))  # no pool is empty
    expected, ranks = draws.normal(size=(b, n, k)), draws.random((b, n, k))
    actions = np.array(
        [[draws.choice(np.flatnonzero(pool >= 0)) for pool in rows] for rows in groups]
    )
    pools = Pools(
        torch.zeros(b, n, k, 1), *(torch.from_numpy(v) for v in (groups, expected, expected, ranks))
    )
    judged = Judged(1, pools, torch.from_numpy(actions), torch.ones(b, n))
    standard, fair = (metric.values(judged) for metric in (StandardRegret(), FairRegret()))
    for i in range(b):
        for j in range(n):
            here = groups[i, j] >= 0
            a = actions[i, j]
            assert standard[i, j] == expected[i, j][here].max() - expected[i, j, a]
            assert fair[i, j] == ranks[i, j][here].max() - ranks[i, j, a]
    counted = [[int((rows == group).sum()) for group in range(g)] for rows in groups]
    assert received(torch.from_numpy(groups), g).tolist() == counted

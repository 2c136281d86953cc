"""Intervals of the relative rank against loops, and the windows for which they hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from fairbandit import FairbanditError, Policy, build, conformance
from fairbandit.conformance import Scattered
from fairbandit.parts import IntervalCdf
from fairbandit.streams import Streams
from tests import support


@pytest.mark.parametrize("after", [2, 40])
@pytest.mark.parametrize("exploration", [0.05, 1.0])
def test_the_formula(after: int, exploration: float) -> None:
    """After few rounds some groups were not seen, and know nothing of their ranks."""
    spec = {"name": "interval_cdf", "delta": 0.2}
    candidates, policy = conformance.asked("rank", spec, after)
    model = candidates.model
    model.parameters = model.parameters[0], exploration * model.parameters[1], model.parameters[2]
    index = policy.rank.index(candidates)
    candidates.set_index(index, index, policy.rank.bounds)
    low, high = candidates.index_bounds()
    assert torch.equal(index, high)
    replicas = index.shape[0]
    world = Scattered()
    world.bind(Streams(1, range(replicas)))
    past = world.pools(1, after)
    ends = model.bounds(past.contexts.flatten(1, 2)[:, None], past.groups.flatten(1, 2)[:, None])
    lowers, uppers = (end[:, 0].numpy() for end in ends)
    own = [end[:, 0].numpy() for end in candidates.bounds()]
    unseen = 0
    for b, k in np.ndindex(replicas, world.places):
        group = int(candidates.groups[b, 0, k])
        member = past.groups[b].flatten().numpy() == group
        n = int(member.sum())
        expected = 0.0, 1.0
        if n > 0:
            below = np.mean(uppers[b][member] <= own[0][b, k])
            reached = np.mean(lowers[b][member] <= own[1][b, k])
            epsilon = math.sqrt(math.log(2 * 3 * n * (n + 1) / 0.2) / (2 * n))
            expected = max(below - epsilon, 0), min(reached + epsilon, 1)
        if group >= 0:
            got = float(low[b, 0, k]), float(high[b, 0, k])
            assert got == pytest.approx(expected, abs=1e-12)
            unseen += n == 0
    assert (unseen > 0) == (after == 2)


def test_windows_that_begin_late_are_refused() -> None:
    made = build({"split": "halves", "estimator": "optimistic_ridge", "rank": "interval_cdf"})
    assert isinstance(made, Policy)
    with pytest.raises(FairbanditError, match=r"begin with round 1, as .* 'full'; got .* round \d"):
        support.actions(made, Scattered(), 5)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, math.nan, math.inf])
def test_a_delta_out_of_range(delta: float) -> None:
    with pytest.raises(FairbanditError, match=r"delta .* above 0 and below 1, got"):
        IntervalCdf(delta=delta)

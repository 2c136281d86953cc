"""Checks on environments."""

from __future__ import annotations

import torch

from fairbandit.conformance.world import ConformanceError, Spec, environment_of
from fairbandit.streams import Streams


def draws_pools(kind: str, spec: Spec) -> None:
    """Pools are sound: true rewards are the truth's, and ranks between 0 and 1."""
    world = environment_of(spec)
    world.bind(Streams(0, range(2)))
    pools = world.pools(1, 200)
    if world.truth is not None:
        true = world.truth.score(pools.contexts, pools.groups.clamp(min=0))
        gap = (true - pools.expected)[pools.groups >= 0].abs().max()
        if float(gap) > 1e-6:
            raise ConformanceError(
                f"expected rewards differ from the truth's score by up to {float(gap):.3g}"
            )
    if float(pools.ranks.min()) < 0 or float(pools.ranks.max()) > 1:
        raise ConformanceError("relative ranks must be from 0 to 1")


def pools_by_address(kind: str, spec: Spec) -> None:
    """A pool depends on its seed, replica and round, not on how rounds are asked for."""
    runs = []
    for replicas, pieces in (([0, 1], [(1, 150)]), ([1], [(1, 70), (71, 80)])):
        world = environment_of(spec)
        world.bind(Streams(4, replicas))
        parts = [world.pools(*piece) for piece in pieces]
        runs.append(
            [torch.cat([p.contexts[-1] for p in parts]), torch.cat([p.rewards[-1] for p in parts])]
        )
    for one, other in zip(*runs, strict=True):
        if not torch.allclose(one, other, rtol=1e-12):
            raise ConformanceError("the pools of a round change with how rounds are asked for")

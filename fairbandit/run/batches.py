"""Divides the replicas of a run into batches, so that the memory of a run is bounded."""

from __future__ import annotations

from itertools import pairwise

from fairbandit.streams import CHUNK_ROUNDS

BUDGET = 2**30
"""About how many bytes the pasts of all replicas in one batch may take."""

_BESIDE = 8  # numbers kept for a candidate beside its features: group, score, rewards, rank, …


def replica_batches(replicas: int, *, rounds: int, places: int, features: int) -> list[range]:
    """Divides replicas into batches of nearly equal size, and returns the numbers in each.

    The rule assumes that a replica keeps every candidate it has seen, and one piece of pools of
    `CHUNK_ROUNDS` rounds: (T + CHUNK_ROUNDS)·K·(d + 8) numbers of 8 bytes. It does not depend on
    the machine, so that a config always gives the same batches and therefore the same files.

    >>> replica_batches(10, rounds=5000, places=4, features=17)
    [range(0, 10)]
    >>> replica_batches(5, rounds=200_000, places=10, features=40)
    [range(0, 1), range(1, 2), range(2, 3), range(3, 4), range(4, 5)]
    """
    each = (rounds + CHUNK_ROUNDS) * places * (features + _BESIDE) * 8
    most = max(1, BUDGET // each)
    count = -(-replicas // most)
    ends = [replicas * index // count for index in range(count + 1)]
    return [range(low, high) for low, high in pairwise(ends)]

"""How many replicas play at once: a fixed rule of the problem's size, so that memory is bounded."""

from __future__ import annotations

from itertools import pairwise

from fairbandit.streams import GRID

BUDGET = 2**30
"""Bytes that the pasts of all replicas in one batch may take, about."""

_BESIDE = 8  # numbers kept for a candidate beside its features: group, score, rewards, rank, …


def replica_batches(replicas: int, *, rounds: int, places: int, features: int) -> list[range]:
    """Divides replicas into batches of nearly equal size.

    A replica is reckoned to keep every candidate it has seen, and one grid piece of pools:
    (T + GRID)·K·(d + 8) numbers of 8 bytes. The rule asks nothing of the machine, so one config
    always makes the same batches, hence the same files.

    Args:
        replicas: how many there are.
        rounds: T.
        places: K.
        features: d.

    Returns:
        The replica numbers of each batch.

    >>> replica_batches(10, rounds=5000, places=4, features=17)
    [range(0, 10)]
    >>> replica_batches(5, rounds=200_000, places=10, features=40)
    [range(0, 1), range(1, 2), range(2, 3), range(3, 4), range(4, 5)]
    """
    each = (rounds + GRID) * places * (features + _BESIDE) * 8
    most = max(1, BUDGET // each)
    count = -(-replicas // most)
    ends = [replicas * index // count for index in range(count + 1)]
    return [range(low, high) for low, high in pairwise(ends)]

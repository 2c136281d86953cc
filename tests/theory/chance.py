"""Statements that hold with a probability, judged by how often they failed."""

import math

from torch import Tensor

ERROR = 1e-6
"""How probable it is at most that a true promise counts as refuted."""


def refuted(held: Tensor, promised: float, error: float = ERROR) -> bool:
    """Whether so many failures have a probability below `error` if the promise is true.

    By the exact binomial tail: replicas are independent, and each fails with probability at most
    1 − promised. A test that asserts `not refuted(…)` therefore fails by chance with probability
    below `error`; one that asserts `refuted(…)` of a changed statement shows that the test would
    notice the change.

    `held` says whether the statement held, by replica, (B,) bool, and `promised` with which
    probability it holds at least.
    """
    replicas, failed = len(held), int((~held).sum())
    missed = 1 - promised
    tail = math.fsum(
        math.comb(replicas, k) * missed**k * promised ** (replicas - k)
        for k in range(failed, replicas + 1)
    )
    return tail < error

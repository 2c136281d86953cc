"""The base class of the parts of a policy."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

from fairbandit.registry.register import Registered

PAPER = "Grazzi et al., Group Meritocratic Fairness in Linear Contextual Bandits, NeurIPS 2022"

NEEDS = frozenset({"contexts", "rewards", "picks", "truth", "refresh", "bounds", "pool"})
"""The needs that a part may declare.

contexts: the past contexts in the rank window, as `scored.past`. rewards: all past picks with their
rewards, as `scored.outcomes` and as the outcomes that an estimator receives. picks: how often each
group was picked, as `ranked.pick_counts`. Rewards and picks are read up to the round before. truth:
the truth of the problem, which is None for a policy without this need.
refresh: a `refresh` of the policy, since a fit takes long. bounds: bounds of the index, as
`ranked.bounds`. pool: the other candidates of the pool, on which a rank's index of a candidate then
depends; `rolling` cannot use such a rank.
"""


class Part(Registered, ABC):
    """A split, an estimator, a rank or a selector: a function and its hyperparameters.

    A constructor takes plain, keyword-only hyperparameters and stores each under its own name.
    Nothing is stored after that, so that policies, runs and threads can share a part. A part
    overrides methods whose names begin with an underscore; public methods call and check them.
    """

    needs: ClassVar[frozenset[str]] = frozenset()
    """The needs of the part: a subset of `NEEDS`."""
    reference: ClassVar[str] = ""
    """The source of the part in the literature."""

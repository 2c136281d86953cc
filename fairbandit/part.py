"""The base class of the parts of a policy, and the problem on which a policy is played."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import ClassVar, NoReturn

import torch
from torch import Tensor

from fairbandit.environments.base import Truth
from fairbandit.errors import FairbanditError
from fairbandit.registry import Registered
from fairbandit.streams import Streams

PAPER = "Grazzi et al., Group Meritocratic Fairness in Linear Contextual Bandits, NeurIPS 2022"

NEEDS = frozenset({"contexts", "rewards", "picks", "truth", "refresh", "bounds", "pool"})
"""The needs that a part may declare.

contexts: the past contexts in the rank window, as `scored.past`. rewards: all past picks with their
rewards, as `scored.outcomes` and as the outcomes that an estimator receives. truth: the truth of
the problem, which is then not None; a policy without this need is given `UNDECLARED`. refresh: a
`refresh` of the policy, since a fit takes long. bounds: bounds of the index, as `ranked.bounds`.
pool: the other candidates of the pool, on which a rank's index of a candidate then depends;
`rolling` cannot use such a rank.
"""


def _undeclared(*_: object) -> NoReturn:
    raise FairbanditError('this part reads the truth: declare needs = frozenset({"truth"})')


class _Undeclared(Truth):
    linear_theta = _undeclared


UNDECLARED = _Undeclared(None, _undeclared, rewards=_undeclared)
"""Stands for the truth in a policy none of whose parts declares that it reads it; reading fails."""


@dataclass(frozen=True)
class Problem:
    """The problem as a policy knows it before the first round.

    Attributes:
        features: d.
        groups: G.
        streams: the random numbers of the run, for B replicas.
        exploration: the environment's `exploration`, for parts that do not set their own.
        truth: the truth; None if it is unknown.
        dtype: the dtype of all real tensors.
    """

    features: int
    groups: int
    streams: Streams
    exploration: float = 1.0
    truth: Truth | None = None
    dtype: torch.dtype = torch.float64

    @property
    def replicas(self) -> int:
        """B, the number of independent runs decided together."""
        return len(self.streams.replicas)

    @property
    def device(self) -> torch.device:
        """The device of all tensors."""
        return self.streams.device

    def zeros(self, *shape: int) -> Tensor:
        """A zero tensor of the problem's dtype, on its device.

        Raises:
            FairbanditError: the tensor is larger than memory.
        """
        try:
            return torch.zeros(shape, dtype=self.dtype, device=self.device)
        except (RuntimeError, TypeError, OverflowError) as error:
            raise FairbanditError(
                f"a tensor of shape {tuple(shape)} does not fit into memory ({self.features} "
                f"features, {self.groups} groups, {self.replicas} replicas)"
            ) from error


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

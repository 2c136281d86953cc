"""The problem on which a policy is played, as the policy knows it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from fairbandit.environments.base import Truth
from fairbandit.errors import FairbanditError
from fairbandit.history.outcomes import Outcomes
from fairbandit.streams import Streams


@dataclass(frozen=True)
class Problem:
    """The problem as a policy knows it before the first round.

    Attributes:
        features: d.
        groups: G.
        streams: the random numbers of the run, for B replicas.
        exploration: the environment's `exploration`, for parts that do not set their own.
        truth: the truth; None if it is unknown, or for a policy none of whose parts needs it.
        unknown: the numbers of the groups of people who did not say; no metric compares with them.
    """

    features: int
    groups: int
    streams: Streams
    exploration: float = 1.0
    truth: Truth | None = None
    unknown: tuple[int, ...] = ()

    @property
    def replicas(self) -> int:
        """B, the number of independent runs decided together."""
        return len(self.streams.replicas)

    @property
    def device(self) -> torch.device:
        """The device of all tensors."""
        return self.streams.device

    @cached_property
    def no_outcomes(self) -> Outcomes:
        """Outcomes of no picks."""
        b = self.replicas
        groups = torch.zeros(b, 0, dtype=torch.int64, device=self.device)
        return Outcomes(groups[0], self.zeros(b, 0, self.features), groups, self.zeros(b, 0))

    def zeros(self, *shape: int) -> Tensor:
        """A zero tensor of float64, on the problem's device.

        Raises:
            FairbanditError: the tensor is larger than memory.
        """
        try:
            return torch.zeros(shape, dtype=torch.float64, device=self.device)
        except (RuntimeError, TypeError, OverflowError) as error:
            raise FairbanditError(
                f"a tensor of shape {tuple(shape)} does not fit into memory ({self.features} "
                f"features, {self.groups} groups, {self.replicas} replicas)"
            ) from error

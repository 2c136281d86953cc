"""Oracles that users bring: taken in any type, and asked whether they know the groups."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import torch

from fairbandit.agent.inputs import LARGEST, numbers
from fairbandit.environments.base import Oracle
from fairbandit.errors import FairbanditError
from fairbandit.maths.checks import shown


def checked(oracle: Oracle, features: int) -> Oracle:
    """An oracle whose θ is a tensor of d numbers, whatever it came as.

    Raises:
        FairbanditError: no oracle, another number of them, or some that are not finite.
    """
    if not (hasattr(oracle, "theta") and callable(getattr(oracle, "cdf", None))):
        raise FairbanditError(
            f"oracle: expected a fairbandit.Oracle(theta, cdf), whose cdf can be called; got "
            f"{shown(oracle)}"
        )
    theta = numbers(oracle.theta, "oracle.theta")
    if theta.shape != (features,):
        raise FairbanditError(
            f"oracle.theta: expected shape ({features},), one number a feature; got {theta.shape}"
        )
    return Oracle(torch.from_numpy(np.array(theta, dtype=np.float64)), oracle.cdf)


def vet(oracle: Oracle, labels: Sequence[Hashable], first: int) -> None:
    """Refuses groups of which an oracle knows no CDF: at a large enough reward it must be 1.

    Args:
        oracle: the oracle.
        labels: the groups'.
        first: the code of the first of them.

    Raises:
        FairbanditError: the first group that is not known.
    """
    top = torch.full((1,), LARGEST, dtype=torch.float64)
    for code, label in enumerate(labels, first):
        try:
            share = float(oracle.cdf(torch.tensor([code]), top))
            known, reason = abs(share - 1) < 1e-6, f"it is {share:g} at {LARGEST:g}, not 1"
        except Exception as error:
            known, reason = False, f"it raises {type(error).__name__}: {error}"
        if not known:
            raise FairbanditError(
                f"the oracle's cdf does not know group {label!r}, number {code}: {reason}"
            )

"""Truths that users bring: numbers of any type, and CDFs that may not know every group."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import torch

from fairbandit.agent.inputs import LARGEST, numbers
from fairbandit.environments.base import Truth
from fairbandit.errors import FairbanditError
from fairbandit.maths.checks import shown


def checked(truth: Truth, features: int) -> Truth:
    """A truth whose θ is a tensor of d numbers, whatever it came as.

    Raises:
        FairbanditError: no truth, another number of them, or some that are not finite.
    """
    if not (isinstance(truth, Truth) and callable(truth.cdf)):
        raise FairbanditError(
            f"truth: expected a fairbandit.Truth(theta, cdf), whose cdf can be called; got "
            f"{shown(truth)}"
        )
    if truth.theta is None:
        return truth
    theta = numbers(truth.theta, "truth.theta")
    if theta.shape != (features,):
        raise FairbanditError(
            f"truth.theta: expected shape ({features},), one number a feature; got {theta.shape}"
        )
    return Truth(torch.from_numpy(np.array(theta, dtype=np.float64)), truth.cdf)


def vet(truth: Truth | None, labels: Sequence[Hashable], first: int) -> None:
    """Refuses groups of which a truth knows no CDF: at a large enough reward it must be 1.

    Args:
        truth: the truth; None if it need not know any.
        labels: of groups whose codes are first, first + 1, …

    Raises:
        FairbanditError: the first group that is not known.
    """
    if truth is None:
        return
    top = torch.full((1,), LARGEST, dtype=torch.float64)
    for code, label in enumerate(labels, first):
        try:
            share = float(truth.cdf(torch.tensor([code]), top, torch.tensor([1])))
            known, reason = abs(share - 1) < 1e-6, f"it is {share:g} at {LARGEST:g}, not 1"
        except Exception as error:
            known, reason = False, f"it raises {type(error).__name__}: {error}"
        if not known:
            raise FairbanditError(
                f"the truth's cdf does not know group {label!r}, number {code}: {reason}"
            )

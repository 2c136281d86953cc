"""Types and ranges of what files hold, which msgspec checks where a file is read.

Anybody can compute a right checksum: it shows damage, and says nothing of what a file holds.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta
from torch import Tensor

from fairbandit.maths.checks import typed

Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Amount = Annotated[float, Meta(ge=0, le=1e100)]
Natural = Annotated[int, Meta(ge=0, le=2**53)]
Share = Annotated[float, Meta(ge=0, le=1 + 1e-9)]
Sha256 = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Plain = dict[str, Any]
"""A mapping that is checked where something is built from it, such as a policy from its config."""


def fitted(value: Any, like: Tensor, *, finite: bool = True) -> Tensor:
    """Returns a tensor that was read, if it is like one that is known.

    Args:
        value: what was read.
        like: has its dtype, device and sizes; where a size is 0 there, any will do.
        finite: whether NaN and infinities are refused.

    Raises:
        ValueError: it is not.
    """
    same = isinstance(value, Tensor) and value.layout == like.layout and value.ndim == like.ndim
    same = same and (value.dtype, value.device) == (like.dtype, like.device)
    same = same and all(n in (0, m) for n, m in zip(like.shape, value.shape, strict=True))
    if not same or (finite and not bool(value.isfinite().all())):
        raise ValueError(f"expected finite numbers like {typed(like)}, got {typed(value)}")
    return value


def within(numbers: Tensor, low: int, high: int) -> bool:
    """Whether all numbers, none included, are from low to high."""
    return bool(((numbers >= low) & (numbers <= high)).all())

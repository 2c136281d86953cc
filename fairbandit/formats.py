"""Types and ranges of what files hold, which are checked where a file is read.

A stranger can compute a right checksum: it shows damage, and says nothing of the contents.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

import msgspec
from msgspec import Meta
from torch import Tensor

from fairbandit.maths.checks import typed

Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Amount = Annotated[float, Meta(ge=0, le=1e100)]
Natural = Annotated[int, Meta(ge=0, le=2**53)]
Number = Annotated[float, Meta(ge=-1e100, le=1e100)]
Share = Annotated[float, Meta(ge=0, le=1 + 1e-9)]
Sha256 = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Plain = dict[str, Any]
"""A mapping that is checked where something is built from it, such as a policy from its config."""


def mapping(**types: Any) -> Any:
    """Returns the type of a mapping for msgspec, from the types of its entries."""
    return TypedDict("mapping", types)  # type: ignore[operator]


def fitted(value: Any, like: Any) -> Any:
    """Returns nested data that was read, with the types of tuples, if it is like known data.

    Args:
        value: what was read; another error than `ValueError` may come of what it is.
        like: has its keys, lengths and types; of tensors the dtype, the device and the sizes, but
            where a size is 0, any will do. Whole numbers are at least 0.

    Raises:
        ValueError: it is not.
    """
    if isinstance(like, Mapping):
        return {key: fitted(value[key], one) for key, one in like.items()}
    if isinstance(like, (list, tuple)):
        parts = [fitted(*pair) for pair in zip(value, like, strict=True)]
        return type(like)(*parts) if hasattr(like, "_fields") else type(like)(parts)
    if not isinstance(like, Tensor):
        return msgspec.convert(value, Natural if type(like) is int else type(like))
    same = isinstance(value, Tensor) and value.layout == like.layout and value.ndim == like.ndim
    same = same and (value.dtype, value.device) == (like.dtype, like.device)
    same = same and all(n in (0, m) for n, m in zip(like.shape, value.shape, strict=True))
    if not same:
        raise ValueError(f"expected numbers like {typed(like)}, got {typed(value)}")
    return value


def within(numbers: Tensor, low: int, high: int) -> bool:
    """Whether all numbers, none included, are from low to high."""
    return bool(((numbers >= low) & (numbers <= high)).all())

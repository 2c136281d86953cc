"""Types and ranges of the contents of files, which are checked when a file is read.

A checksum shows damage, but a crafted file can have a right one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

import msgspec
from msgspec import Meta
from torch import Tensor

from fairbandit.errors import typed

Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Amount = Annotated[float, Meta(ge=0, le=1e100)]
Natural = Annotated[int, Meta(ge=0, le=2**53)]
Number = Annotated[float, Meta(ge=-1e100, le=1e100)]
Share = Annotated[float, Meta(ge=0, le=1 + 1e-9)]
Sha256 = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Plain = dict[str, Any]  # a mapping that its user checks, as a policy checks its config


def mapping(**types: Any) -> Any:
    """Returns the msgspec type of a mapping with entries of the given types."""
    return TypedDict("mapping", types)  # type: ignore[operator]


def fitted(value: Any, like: Any) -> Any:
    """Nested data from a file, with tuples of the right types, if it fits an example.

    The data has the keys, lengths and types of `like`. A tensor has the same dtype, device and
    sizes; a size of 0 allows any size. Whole numbers are at least 0.

    Raises:
        ValueError: the data does not fit; its own type may cause other errors.
    """
    if isinstance(like, Mapping):
        return {key: fitted(value[key], example) for key, example in like.items()}
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
    """Whether all numbers are from low to high; true for an empty tensor."""
    return bool(((numbers >= low) & (numbers <= high)).all())

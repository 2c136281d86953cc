"""Saved state, checked before it is gone on from: tensors, counts and lists of the right kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from fairbandit.errors import FairbanditError

LARGEST = 2**62
"""Counts beyond it are refused: tensors of int64 hold no sums of them."""


def like(what: str, given: Any, model: Tensor, free: int | None = None) -> Tensor:
    """A tensor of the same dtype, device and sizes as a model.

    Args:
        what: what messages call it.
        given: the tensor.
        model: what it has to be like.
        free: a dimension whose size may be any.

    Raises:
        FairbanditError: anything else.
    """
    if isinstance(given, Tensor) and given.device.type == model.device.type:
        sizes = [list(tensor.shape) for tensor in (given, model)]
        if free is not None and given.ndim == model.ndim:
            sizes[0][free] = sizes[1][free]
        if sizes[0] == sizes[1] and given.dtype == model.dtype and given.layout == model.layout:
            return given
    wanted = ", ".join("any" if at == free else str(n) for at, n in enumerate(model.shape))
    raise FairbanditError(
        f"{what}: expected a tensor of shape ({wanted}) and {model.dtype} on "
        f"{model.device.type}; got {told(given)}"
    )


def count(what: str, given: Any, least: int = 0, most: int = LARGEST) -> int:
    """A whole number.

    Raises:
        FairbanditError: anything else, or one that is out of range.
    """
    if type(given) is not int or not least <= given <= most:
        raise FairbanditError(
            f"{what}: expected a whole number from {least} to {most}, got {told(given)}"
        )
    return given


def mapping(what: str, given: Any) -> Mapping[str, Any]:
    """A mapping.

    Raises:
        FairbanditError: anything else.
    """
    if not isinstance(given, Mapping):
        raise FairbanditError(f"{what}: expected a mapping, got {told(given)}")
    return given


def length(what: str, given: Any, size: int) -> Sequence[Any]:
    """A list of so many entries.

    Raises:
        FairbanditError: anything else.
    """
    if not isinstance(given, (list, tuple)) or len(given) != size:
        has = f"{len(given)} entries" if isinstance(given, (list, tuple)) else told(given)
        raise FairbanditError(f"{what}: expected a list of {size} entries, got {has}")
    return given


def told(value: Any) -> str:
    """The type of a value and the value itself, for a message."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)} and {value.dtype} on {value.device}"
    return f"{type(value).__name__} {shown(value)}"


def shown(value: Any) -> str:
    """A value for a message: cut short, and whatever its own `repr` may raise."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # such as that of an int of too many digits
        return f"one that cannot be shown (at {id(value):#x})"
    return text if len(text) <= 60 else text[:57] + "..."

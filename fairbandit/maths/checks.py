"""Checks of saved state before it is loaded: tensors, counts and lists of the right kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from fairbandit.errors import FairbanditError

LARGEST = 2**62
"""The greatest count that is accepted; sums of larger ones may overflow int64."""


def like(what: str, given: Any, model: Tensor, free: int | None = None) -> Tensor:
    """The given value, if it is a tensor of the same dtype, device and sizes as a model.

    Args:
        what: its name in messages.
        given: the value.
        model: the tensor to compare with.
        free: a dimension whose size may differ.

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
    """The given value, if it is a whole number in range.

    Raises:
        FairbanditError: anything else.
    """
    if type(given) is not int or not least <= given <= most:
        raise FairbanditError(
            f"{what}: expected a whole number from {least} to {most}, got {told(given)}"
        )
    return given


def mapping(what: str, given: Any) -> Mapping[str, Any]:
    """The given value, if it is a mapping.

    Raises:
        FairbanditError: anything else.
    """
    if not isinstance(given, Mapping):
        raise FairbanditError(f"{what}: expected a mapping, got {told(given)}")
    return given


def length(what: str, given: Any, size: int) -> Sequence[Any]:
    """The given value, if it is a list of `size` entries.

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
    """A value for a message, cut short; an error of its own `repr` is caught."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # such as that of an int of too many digits
        return f"one that cannot be shown (at {id(value):#x})"
    return text if len(text) <= 60 else text[:57] + "..."

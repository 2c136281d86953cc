"""Values as messages show them."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def typed(value: Any) -> str:
    """The type of a value and the value itself, for a message."""
    if isinstance(value, Tensor) and not value.is_nested:
        return f"a tensor of shape {tuple(value.shape)} and {value.dtype} on {value.device}"
    return f"{type(value).__name__} {shown(value)}"


def shown(value: Any) -> str:
    """A value for a message, cut short; an error of its own `repr` is caught."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # such as that of an int of too many digits
        return f"one that cannot be shown (at {id(value):#x})"
    return text if len(text) <= 60 else text[:57] + "..."

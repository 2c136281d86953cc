"""Formats values for messages."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def typed(value: Any) -> str:
    """The type of a value and the value itself, for a message."""
    if isinstance(value, Tensor) and not value.is_nested:
        return f"a tensor of shape {tuple(value.shape)} and {value.dtype} on {value.device}"
    return f"{type(value).__name__} {shown(value)}"


def shown(value: Any) -> str:
    """A value as short text for a message; errors of its own `repr` are caught."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # such as for an int with too many digits
        return f"<cannot be shown, at {id(value):#x}>"
    return text if len(text) <= 60 else text[:57] + "..."

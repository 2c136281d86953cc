"""Checks values, and formats them for messages."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor


def all_finite(values: Tensor) -> bool:
    """Whether all values are finite; a finite sum, which is found faster, has finite terms."""
    return math.isfinite(float(values.sum())) or bool(values.isfinite().all())


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

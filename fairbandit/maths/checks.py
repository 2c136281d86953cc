"""Checks values, and formats them for messages and tables."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

_DECIMALS = 4


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


def brief(value: float) -> str:
    """Formats a number to four digits, or all digits before the point.

    >>> brief(1234567.8), brief(0.00012345), brief(3.2e21), brief(5000.0)
    ('1,234,568', '0.0001234', '3.2e+21', '5,000')
    """
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def numeral(value: float, std: float | None = None) -> str:
    """Formats a number to two digits of its standard deviation, or without it to four digits.

    >>> numeral(1234.56, 7.891), numeral(7.891, 7.891), numeral(512.3, 1600.0), numeral(0.25)
    ('1,234.6', '7.9', '512', '0.25')
    >>> numeral(-0.0, 0.0), numeral(1e-7), numeral(2.5e9), numeral(math.inf)
    ('0', '1.00e-07', '2.50e+09', 'inf')
    """
    if not math.isfinite(value):
        return str(value)
    size = std or abs(value)
    exact = not std
    power = math.floor(math.log10(size)) if size else 0
    if value and not 10.0**-_DECIMALS <= max(abs(value), std or 0.0) < 10.0**7:
        return f"{value:.2e}"
    decimals = min(max((3 if exact else 1) - power, 0), _DECIMALS)
    text = f"{round(value, decimals) + 0.0:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if exact and decimals else text

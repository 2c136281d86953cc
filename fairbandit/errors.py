"""The error for input that the user can correct, and its form on the command line."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

PREFIX = "fairbandit: error: "
"""The command line prints this before the message of every error."""

FULL_ERROR = "HYDRA_FULL_ERROR"
"""The environment variable that, set to 1, makes the command line show tracebacks, like Hydra."""


class FairbanditError(ValueError):
    """Invalid input: the message names the expected input, the given input and valid choices."""


def did_you_mean(given: object, choices: Iterable[object]) -> str:
    """Returns a guess for the message of an unknown name: a choice of similar spelling, or "".

    A choice is also a guess if it alone begins with the given name. Upper and lower case are alike,
    and names with dots or slashes are compared by their last part, which includes a file's ending.

    >>> did_you_mean("Rouns", ["rounds", "seed"]), did_you_mean("rank", ["policy/rank"])
    (" (did you mean 'rounds'?)", " (did you mean 'policy/rank'?)")
    >>> did_you_mean("cost", ["cost_per_pick", "seed"]), did_you_mean("s", ["split", "seed"])
    (" (did you mean 'cost_per_pick'?)", '')
    """
    ends = {_end(str(choice)): str(choice) for choice in choices}
    name = _end(str(given))
    near = get_close_matches(name, ends, n=1, cutoff=0.7)
    near = near or [end for end in ends if name and end.startswith(name)]
    known = len(near) != 1 or ends[near[0]] == given
    return "" if known else f" (did you mean {ends[near[0]]!r}?)"


def unknown(what: str, given: object, choices: Iterable[object]) -> FairbanditError:
    """Returns the error for an unknown name, which lists the choices.

    >>> unknown("figure", "prise", ["price", "overview"]).args[0]
    "unknown figure 'prise' (did you mean 'price'?); expected one of price, overview"
    """
    valid = [*map(str, choices)]
    guess = did_you_mean(given, valid)
    return FairbanditError(f"unknown {what} {given!r}{guess}; expected one of {', '.join(valid)}")


def check_known(what: str, names: Iterable[str], choices: Iterable[str]) -> None:
    """Raises `unknown` for the first name that is not among the choices."""
    valid = [*choices]
    for name in names:
        if name not in valid:
            raise unknown(what, name, valid)


def type_of(value: object) -> str:
    """Returns the type of a value for a message, with the name of a column of pandas."""
    name = getattr(value, "name", None)
    return f"a {type(value).__name__}" + (f" named {name!r}" if isinstance(name, str) else "")


def typed(value: Any) -> str:
    """The type of a value and the value itself, for a message."""
    from torch import Tensor  # here, so that the command answers before torch is imported

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


def _end(name: str) -> str:
    return re.split("[./](?!(?:csv|parquet)$)", name.lower())[-1]


_CONTROLS = {*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_REMOVED = dict.fromkeys(_CONTROLS - {ord("\n"), ord("\t")})
_MARKS = (0x061C, 0x200E, 0x200F, 0xFEFF, *range(0xD800, 0xE000))  # surrogates, too
_ESCAPED = {code: ascii(chr(code))[1:-1] for code in (*_REMOVED, *_MARKS)}


def printable(text: str) -> str:
    r"""Removes control characters and bidi overrides, which would change a terminal's display.

    >>> printable("a\x1b[32m\u202eb")
    'a[32mb'
    """
    return text.translate(_REMOVED)


def visible(value: Any) -> str:
    r"""Returns a text whose characters without a shape are written as escapes.

    >>> visible("a\x1b\u202eb")
    'a\\x1b\\u202eb'
    """
    return str(value).translate(_ESCAPED)

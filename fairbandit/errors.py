"""The error for input that the user can correct, and its form on the command line."""

PREFIX = "fairbandit: error: "
"""The command line prints this before the message of every error."""

FULL_ERROR = "HYDRA_FULL_ERROR"
"""The environment variable that, set to 1, makes the command line show tracebacks, like Hydra."""


class FairbanditError(ValueError):
    """Invalid input: the message names the expected input, the given input and valid choices."""


_CONTROLS = {*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_REMOVED = dict.fromkeys(_CONTROLS - {ord("\n"), ord("\t")})


def printable(text: str) -> str:
    r"""Removes control characters and bidi overrides, which would change a terminal's display.

    >>> printable("a\x1b[32m\u202eb")
    'a[32mb'
    """
    return text.translate(_REMOVED)

"""The error for input that the user can correct, and how the command line prints it."""

PREFIX = "fairbandit: error: "
"""The command line prints this before the message of every error."""


class FairbanditError(ValueError):
    """Bad input: the message says what was expected, what came, and the valid choices."""


_OBEYED = {*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_REMOVED = dict.fromkeys(_OBEYED - {ord("\n"), ord("\t")})


def printable(text: str) -> str:
    r"""Removes control characters and bidi overrides, which a screen obeys and does not show.

    >>> printable("a\x1b[32m\u202eb")
    'a[32mb'
    """
    return text.translate(_REMOVED)

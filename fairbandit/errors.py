"""The error for input that the user can correct; the command line prints it in one line."""

PREFIX = "fairbandit: error: "
"""The command line prints this before the message of every error."""


class FairbanditError(ValueError):
    """Bad input: the message says what was expected, what came, and the valid choices."""

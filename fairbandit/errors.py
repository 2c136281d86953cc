"""The one kind of error that a user can mend; the command line prints it without a traceback."""

PREFIX = "fairbandit: error: "
"""The command line prints this before the message of every error."""


class FairbanditError(ValueError):
    """Bad input: the message says what was expected, what came, and the valid choices."""

"""The one kind of error that a user can mend; the command line prints it without a traceback."""


class FairbanditError(ValueError):
    """Bad input: the message says what was expected, what came, and the valid choices."""

"""Tells the user what was done with a table that its config does not say."""

from __future__ import annotations

import logging
from functools import cache

_log = logging.getLogger("fairbandit")


@cache
def remark(text: str) -> None:
    """Logs a line as a warning, once in a process, so that a sweep does not repeat it.

    Where no logging is configured, as in the command, the line goes to the standard error.
    """
    _log.warning(text)

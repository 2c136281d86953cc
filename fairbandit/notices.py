"""Notices of doubtful input, each logged once in a process."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache

_nowhere = deque[str](maxlen=0)
_noted: ContextVar[list[str] | deque[str]] = ContextVar("_noted", default=_nowhere)
_remark = lru_cache(1 << 12)(logging.getLogger("fairbandit").warning)


def listed(items: Sequence[str], limit: int = 30) -> str:
    """Joins the first `limit` items for a message, and counts the others."""
    shown = ", ".join(items[:limit])
    return shown if len(items) <= limit else f"{shown} and {len(items) - limit} more"


def remark(text: str) -> None:
    """Logs a notice once in a process, so that the jobs of a sweep do not repeat it."""
    _noted.get().append(text)
    _remark(text)


@contextmanager
def noted() -> Iterator[list[str]]:
    """Yields a list that collects the remarks of the block."""
    token = _noted.set(notes := list[str]())
    try:
        yield notes
    finally:
        _noted.reset(token)

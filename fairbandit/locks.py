"""Cached properties without locks."""

from __future__ import annotations

from contextlib import nullcontext
from functools import cached_property
from typing import Any, TypeVar

C = TypeVar("C", bound=type[Any])


def without_locks(cls: C) -> C:
    """Class decorator: cached properties do without the lock that they have before Python 3.12.

    It is one lock for all objects of the class. Threads that each have an object of their own would
    wait for each other, and a process that is forked meanwhile would wait for ever.
    """
    for value in vars(cls).values():
        if isinstance(value, cached_property):
            vars(value)["lock"] = nullcontext()
    return cls

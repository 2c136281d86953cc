"""Cached properties without locks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class cached_property:  # noqa: N801 - replaces functools.cached_property
        """A property that is computed on first access and then stored as an attribute.

        Before Python 3.12, `functools.cached_property` has one lock for all objects of a class:
        threads with separate objects would wait for each other, and a process that is forked
        meanwhile would deadlock.
        """

        def __init__(self, function: Any) -> None:
            self.function, self.__doc__ = function, function.__doc__

        def __get__(self, instance: Any, owner: Any) -> Any:
            if instance is None:
                return self
            value = self.function(instance)
            vars(instance)[self.function.__name__] = value
            return value

"""Cached properties without locks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class cached_property:  # noqa: N801 - it takes the place of that of functools
        """A property that is computed when it is first read, and an attribute from then on.

        Before Python 3.12, that of functools has one lock for all objects of the class: threads
        that each have an object of their own would wait for each other, and a process that is
        forked meanwhile would wait for ever.
        """

        def __init__(self, function: Any) -> None:
            self.function, self.__doc__ = function, function.__doc__

        def __get__(self, instance: Any, owner: Any) -> Any:
            if instance is None:
                return self
            value = self.function(instance)
            vars(instance)[self.function.__name__] = value
            return value

"""Cached properties without locks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):  # noqa: N801 - it takes the place of that of functools
    """A property that is computed when it is first read, and an attribute from then on.

    Before Python 3.12, that of functools has one lock for all objects of the class: threads that
    each have an object of their own would wait for each other, and a process that is forked
    meanwhile would wait for ever.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.function, self.__doc__ = function, function.__doc__

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type[Any]) -> T: ...
    def __get__(self, instance: object | None, owner: type[Any]) -> T | Self:
        if instance is None:
            return self
        value = self.function(instance)
        vars(instance)[self.function.__name__] = value
        return value

"""Calls of a shared object: one at a time, and undone if they fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from fairbandit.errors import FairbanditError

_INSIDE = "the agent was called from within one of its own calls; wait until that one has returned"

_LOST = (
    "a call failed and could not be undone, since a part could not go back to its state; go on "
    "from a saved file"
)


class Guard:
    """Keeps the calls of an agent apart, and undoes those that fail.

    A copy is a new guard, with locks of its own.

    Attributes:
        lock: held by each call.
        writing: held by whoever writes the agent's file.
    """

    def __init__(self) -> None:
        self.lock, self.writing = threading.RLock(), threading.RLock()
        self._refusal: str | None = None

    def __reduce__(self) -> tuple[type[Guard], tuple[()]]:
        return Guard, ()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Holds the lock against other threads, and refuses calls from within another one.

        Raises:
            FairbanditError: a call from within another one, or after one that was not undone.
        """
        with self.lock:
            if self._refusal is not None:
                raise FairbanditError(self._refusal)
            try:
                self._refusal = _INSIDE
                yield
            finally:
                if self._refusal is _INSIDE:
                    self._refusal = None

    @contextmanager
    def undoing(
        self, objects: Sequence[object], recover: Callable[[], object], always: bool = False
    ) -> Iterator[None]:
        """Undoes what was done to some objects if anything is raised, whatever it is.

        The objects get back the attributes that they had, which costs no copy of what they hold.

        Args:
            objects: rebind their attributes and never write over what an attribute held.
            recover: does what is left to do after that; doing it twice is doing it once.
            always: whether to undo it if nothing is raised, too.
        """
        kept, undo = [(one, vars(one).copy()) for one in objects], True
        try:
            yield
            undo = always
        finally:
            if undo:
                for one, attributes in kept:
                    vars(one).clear()
                    vars(one).update(attributes)
                self._refusal = _LOST
                interrupt = _uninterrupted(recover)
                self._refusal = _INSIDE
                if interrupt is not None:
                    raise interrupt


def _uninterrupted(recover: Callable[[], object]) -> BaseException | None:
    """Begins again if an interrupt, such as Ctrl-C, comes in between, and returns the interrupt."""
    try:
        recover()
    except Exception:
        raise
    except BaseException as interrupt:
        recover()
        return interrupt
    return None

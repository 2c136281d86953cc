"""Taking back what a call began, should it fail."""

from __future__ import annotations


class Attributes:
    """The attributes of some objects as they are now, to go back to.

    That takes back all that was done to objects which bind their attributes anew, and never write
    over what an attribute held in use. Keeping them costs no copy of what they hold.

    Args:
        objects: the objects.

    >>> class Counter:
    ...     counts = ()
    >>> one = Counter()
    >>> before = Attributes(one)
    >>> one.counts = (1, 2)
    >>> before.restore()
    >>> one.counts
    ()
    """

    def __init__(self, *objects: object) -> None:
        self._kept = [(one, vars(one).copy()) for one in objects]

    def restore(self) -> None:
        """Goes back to them."""
        for one, attributes in self._kept:
            vars(one).clear()
            vars(one).update(attributes)

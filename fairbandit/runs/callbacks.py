"""Callbacks, which take part in a run while it is played."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairbandit.runs.saved import Run


class Callback:
    """Takes part in a run; a class of your own overrides some of these methods.

    An exception that a method raises ends the run, which the same command continues.
    """

    def on_start(self, settings: Mapping[str, Any]) -> None:
        """Called when a run begins or continues, with its config by dotted keys."""

    def on_rounds(self, t: int, means: Mapping[str, float]) -> None:
        """Called during the first batch of replicas, with the mean of each metric after round t."""

    def on_end(self, run: Run) -> None:
        """Called when the files of the run are written."""

"""Writes TensorBoard's event files, with one record for all tags of a step."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from fairbandit.run.folder import EVENTS

_SECONDS_BETWEEN_FLUSHES = 2.0


class EventWriter:
    """Writes summaries to an event file that TensorBoard can follow while it grows.

    Args:
        folder: where the file goes; TensorBoard calls the run by this folder's name.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / EVENTS.replace("*", str(time.time_ns()))
        self._records = RecordWriter(path.open("wb"))
        self._flushed = time.monotonic()
        self._write(Event(file_version="brain.Event:2"))

    def __enter__(self) -> EventWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._records.close()

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Writes one step's scalars, by tag."""
        scalars = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        self.write(Summary(value=scalars), step)

    def write(self, summary: Summary, step: int = 0) -> None:
        """Writes any summary."""
        self._write(Event(step=step, summary=summary))

    def _write(self, event: Event) -> None:
        event.wall_time = time.time()
        self._records.write(event.SerializeToString())
        if time.monotonic() - self._flushed > _SECONDS_BETWEEN_FLUSHES:
            self._records.flush()
            self._flushed = time.monotonic()

"""TensorBoard: the event file of a run, the layout of its page, its config, and images."""

from __future__ import annotations

import json
import re
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.custom_scalar import metadata as custom
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.summary.writer.record_writer import RecordWriter

from fairbandit.errors import FairbanditError
from fairbandit.metrics import REGRETS
from fairbandit.run.folder import EVENTS

RATE, INSTANT, GAP = "selection_rate", "instantaneous_regret", "parity_gap"

INSTANTS = tuple(f"{INSTANT}/{column.removesuffix('_regret')}" for column in sorted(REGRETS))
"""The tags of the instantaneous regrets."""

MAX_GROUPS = 8
"""The largest number of groups whose selection rates have curves; the parity gap always has."""

_LENGTH, _CHECKSUM = struct.Struct("<Q4x"), 4  # of a record in an event file
_CONFIG = "config"
_FIRST = 3  # events, among which the config is
_FENCES = ("```json\n", "\n```")
_SECONDS_BETWEEN_FLUSHES = 2.0


class EventWriter:
    """Writes summaries to an event file that TensorBoard can follow while it grows.

    Each step is one record, which holds the scalars of all tags.

    Args:
        folder: where the file goes; TensorBoard calls the run by this folder's name.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / EVENTS.replace("*", str(time.time_ns()))
        self._records = RecordWriter(path.open("wb"))
        self._flushed = time.monotonic()
        first = Event(wall_time=time.time(), file_version="brain.Event:2")
        self._records.write(first.SerializeToString())

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Writes one step's scalars, by tag."""
        scalars = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        self.write(Summary(value=scalars), step)

    def write(self, summary: Summary, step: int = 0) -> None:
        """Writes any summary."""
        event = Event(wall_time=time.time(), step=step, summary=summary)
        self._records.write(event.SerializeToString())
        if time.monotonic() - self._flushed > _SECONDS_BETWEEN_FLUSHES:
            self.flush()

    def flush(self) -> None:
        """Writes to the file what is left, so that other processes can read it."""
        self._records.flush()
        self._flushed = time.monotonic()

    def close(self) -> None:
        """Writes what is left, and closes the file."""
        self._records.close()


def tag_of(column: str) -> str:
    """Returns the tag of a metric's curves: what summaries call a regret, or else its column."""
    return REGRETS.get(column, column)


def titled(tag: str) -> str:
    """Returns a tag in words, as the title of a chart or of a column.

    >>> titled("fair_pseudo_regret"), titled("instantaneous_regret/fair")
    ('fair pseudo-regret', 'instantaneous regret, fair')
    """
    return tag.replace("_", " ").replace("pseudo ", "pseudo-").replace("/", ", ")


def layout(metrics: Sequence[str] = (), groups: Sequence[str] = ()) -> Summary:
    """Lays out the charts of TensorBoard's Custom Scalars page.

    Args:
        metrics: the columns of the metrics beside both regrets.
        groups: the names of the groups whose selection rates have curves.
    """
    categories = {
        "pseudo-regret": [_margin(tag_of(column)) for column in sorted(REGRETS)],
        "metrics": [_margin(tag_of(column)) for column in metrics],
        "parity gap and instantaneous regret": [_lines(tag) for tag in (GAP, *INSTANTS)],
        "selection rates": [_lines(f"{RATE}/{group}") for group in groups],
    }
    made = layout_pb2.Layout(
        category=[
            layout_pb2.Category(title=title, chart=charts)
            for title, charts in categories.items()
            if charts
        ]
    )
    tensor = TensorProto(dtype=DT_STRING, string_val=[made.SerializeToString()])
    value = Summary.Value(
        tag=custom.CONFIG_SUMMARY_TAG, metadata=custom.create_summary_metadata(), tensor=tensor
    )
    return Summary(value=[value])


def config_text(config: Mapping[str, Any]) -> Summary:
    """Puts the config of a run on TensorBoard's Text page, from which `read_config` reads it."""
    first, last = _FENCES
    return text_pb(_CONFIG, f"{first}{json.dumps(config, indent=2, ensure_ascii=False)}{last}")


def read_events(folder: Path) -> Iterator[Event]:
    """Yields the events of a run, finished or under way, up to a record that is unfinished.

    A record is the length of its data and a checksum of it, the data, and their checksum.
    TensorBoard's own reader takes a millisecond to verify the checksums of one record; they are
    not verified here.

    Raises:
        FairbanditError: a file that is damaged.
    """
    for path in sorted(folder.glob(EVENTS)):
        data, start = path.read_bytes(), _LENGTH.size
        while start <= len(data):
            end = start + _LENGTH.unpack_from(data, start - _LENGTH.size)[0]
            if end + _CHECKSUM > len(data):
                break
            try:
                yield Event.FromString(data[start:end])
            except DecodeError as error:
                raise FairbanditError(f"{path} cannot be read: {error}; remove it") from error
            start = end + _CHECKSUM + _LENGTH.size


def read_config(folder: Path) -> dict[str, Any] | None:
    """Reads the resolved config of a run, finished or under way, from its events.

    Returns:
        The config, or None as long as there is none, or if what is in the folder is no run.
    """
    first, last = _FENCES
    for event in islice(read_events(folder), _FIRST):
        for value in event.summary.value:
            if value.tag == _CONFIG and value.tensor.string_val:
                text = value.tensor.string_val[0].decode()
                config: dict[str, Any] = json.loads(text.removeprefix(first).removesuffix(last))
                return config
    return None


def image(tag: str, png: bytes) -> Summary:
    """Puts a PNG file on TensorBoard's Images page."""
    width, height = struct.unpack(">II", png[16:24])  # the header comes first
    shown = Summary.Image(encoded_image_string=png, width=width, height=height, colorspace=4)
    return Summary(value=[Summary.Value(tag=tag, image=shown)])


def _margin(tag: str) -> layout_pb2.Chart:
    """Returns a chart of a mean with its band, titled by the tag."""
    series = layout_pb2.MarginChartContent.Series(
        value=f"{tag}/mean", lower=f"{tag}/lower", upper=f"{tag}/upper"
    )
    return layout_pb2.Chart(
        title=titled(tag), margin=layout_pb2.MarginChartContent(series=[series])
    )


def _lines(tag: str) -> layout_pb2.Chart:
    """Returns a chart of the lines of one tag."""
    lines = layout_pb2.MultilineChartContent(tag=[f"{re.escape(tag)}$"])
    return layout_pb2.Chart(title=titled(tag), multiline=lines)

"""TensorBoard: the event file of a run, the layout of its page, hyperparameters and images."""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.custom_scalar import metadata as custom
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.summary.writer.record_writer import RecordWriter

from fairbandit.metrics import REGRETS
from fairbandit.run.folder import EVENTS
from fairbandit.run.settings import dotted

RATE, INSTANT, GAP = "selection_rate", "instantaneous_regret", "parity_gap"

MAX_GROUPS = 8
"""The largest number of groups whose selection rates have curves; the parity gap always has."""

_LONGEST = 100  # characters of a hyperparameter's value
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
            self._records.flush()
            self._flushed = time.monotonic()

    def close(self) -> None:
        """Writes what is left, and closes the file."""
        self._records.close()


def tag_of(column: str) -> str:
    """Returns the tag of a metric's curves: what summaries call a regret, or else its column."""
    return REGRETS.get(column, column)


def layout(metrics: Sequence[str] = ()) -> Summary:
    """Lays out the charts of TensorBoard's Custom Scalars page, with the metrics given."""
    regrets, own = ([_margin(tag_of(c)) for c in columns] for columns in (sorted(REGRETS), metrics))
    others = [
        _lines("selection rate by group", f"{RATE}/.*"),
        _lines("instantaneous regret, fair", f"{INSTANT}/fair"),
        _lines("instantaneous regret, standard", f"{INSTANT}/standard"),
        _lines("parity gap", GAP),
    ]
    made = layout_pb2.Layout(
        category=[
            layout_pb2.Category(title="pseudo-regret", chart=regrets),
            *([layout_pb2.Category(title="metrics", chart=own)] if own else []),
            layout_pb2.Category(title="selection and instantaneous regret", chart=others),
        ]
    )
    tensor = TensorProto(dtype=DT_STRING, string_val=[made.SerializeToString()])
    value = Summary.Value(
        tag=custom.CONFIG_SUMMARY_TAG, metadata=custom.create_summary_metadata(), tensor=tensor
    )
    return Summary(value=[value])


def hyperparameters(config: Mapping[str, Any], name: str) -> Summary:
    """Gives a run its line in TensorBoard's HParams table.

    Args:
        config: the resolved config. Its keys become dotted names, the name of a part stands for
            the part, and long values are left out.
        name: a name of the run; runs of one name share a line.
    """
    shown = {
        key.removesuffix(".name"): value if isinstance(value, (bool, int, float)) else str(value)
        for key, value in dotted(config)
        if value not in (None, {}) and len(str(value)) <= _LONGEST
    }
    return hparams_pb(shown, trial_id=name, start_time_secs=time.time())


def image(tag: str, png: bytes) -> Summary:
    """Puts a PNG file on TensorBoard's Images page."""
    width, height = struct.unpack(">II", png[16:24])  # the header comes first
    shown = Summary.Image(encoded_image_string=png, width=width, height=height, colorspace=4)
    return Summary(value=[Summary.Value(tag=tag, image=shown)])


def _margin(tag: str) -> layout_pb2.Chart:
    """Returns a chart of a mean with its band, titled by the tag."""
    title = tag.replace("_", " ").replace("pseudo ", "pseudo-")
    series = layout_pb2.MarginChartContent.Series(
        value=f"{tag}/mean", lower=f"{tag}/lower", upper=f"{tag}/upper"
    )
    return layout_pb2.Chart(title=title, margin=layout_pb2.MarginChartContent(series=[series]))


def _lines(title: str, tag: str) -> layout_pb2.Chart:
    return layout_pb2.Chart(title=title, multiline=layout_pb2.MultilineChartContent(tag=[tag]))

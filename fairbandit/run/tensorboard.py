"""TensorBoard: the event file of a run, the layout of its page, its config, and images."""

from __future__ import annotations

import json
import re
import struct
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.summary.writer.record_writer import RecordWriter
from torch.utils.tensorboard.summary import custom_scalars

from fairbandit.metrics import REGRETS
from fairbandit.run.curves import RATE, Curve, log_spaced
from fairbandit.run.folder import EVENTS

INSTANTS = {column: f"instantaneous_regret/{column.removesuffix('_regret')}" for column in REGRETS}
"""The tags of the instantaneous regrets."""

WINDOWS = 50
"""The largest number of windows of rounds over which the instantaneous regret is averaged."""


class EventWriter:
    """Writes summaries to an event file that TensorBoard can follow while it grows.

    Each step is one record, which holds the scalars of all tags. TensorBoard calls the run by the
    name of its folder.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / EVENTS.replace("*", str(time.time_ns()))
        self._records = RecordWriter(path.open("wb"))
        first = Event(wall_time=time.time(), file_version="brain.Event:2")
        self._records.write(first.SerializeToString())

    def add(self, points: Iterable[tuple[int, Mapping[str, float]]]) -> None:
        """Writes the points that `scalars` yields."""
        for step, values in points:
            found = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
            self.write(Summary(value=found), step)

    def write(self, summary: Summary, step: int = 0) -> None:
        """Writes any summary, for other processes to read at once."""
        event = Event(wall_time=time.time(), step=step, summary=summary)
        self._records.write(event.SerializeToString())
        self._records.flush()

    def close(self) -> None:
        """Writes what is left, and closes the file."""
        self._records.close()


def scalars(
    curves: Mapping[str, Curve], first: int, last: int
) -> Iterator[tuple[int, dict[str, float]]]:
    """Yields each round of first … last with the known values of curves by their tags.

    A metric has its mean, and mean ∓ std as lower and upper; a selection rate has its mean. The
    instantaneous regrets are the rises of the mean regrets, divided by the rounds, in the windows
    between two of at most `WINDOWS` log-spaced rounds.
    """
    points: dict[int, dict[str, float]] = {}
    for name, curve in curves.items():
        low, high = np.searchsorted(curve.rounds, [first, last + 1])
        known = low + np.flatnonzero(curve.count[low:high])
        for at in known.tolist():
            values = points.setdefault(int(curve.rounds[at]), {})
            mean, std = float(curve.mean[at]), float(np.nan_to_num(curve.std[at]))
            if name.startswith(f"{RATE}/"):
                values[name] = mean
            else:
                values[f"{name}/mean"] = mean
                values[f"{name}/lower"], values[f"{name}/upper"] = mean - std, mean + std
    for column, tag in INSTANTS.items():
        if column in curves:
            for step, regret in _instantaneous(curves[column]):
                if first <= step <= last:
                    points.setdefault(step, {})[tag] = regret
    yield from sorted(points.items())


def _instantaneous(curve: Curve) -> Iterator[tuple[int, float]]:
    """Yields the last round of each window of a regret's curve, and the mean regret in it."""
    ends = log_spaced(int(curve.rounds[-1]), WINDOWS)
    at = np.unique(np.searchsorted(curve.rounds, ends))
    at = at[curve.count[at] > 0]
    rounds = np.diff(curve.rounds[at], prepend=0)
    rises = np.diff(curve.mean[at], prepend=0.0)
    yield from zip(curve.rounds[at].tolist(), (rises / rounds).tolist(), strict=True)


def titled(tag: str) -> str:
    """Returns a tag in words, as the title of a chart or of a column.

    >>> titled("fair_regret"), titled("instantaneous_regret/fair")
    ('fair regret', 'instantaneous regret, fair')
    """
    return tag.replace("_", " ").replace("/", ", ")


def layout(metrics: Sequence[str], groups: Sequence[str] = ()) -> Summary:
    """Lays out the curves of all metrics and of some groups on the page Custom Scalars."""
    others = [column for column in metrics if column not in REGRETS]
    rates = [f"{RATE}/{group}" for group in groups]
    categories = {
        "regret": {titled(column): _margin(column) for column in REGRETS},
        "metrics": {titled(column): _margin(column) for column in others},
        "instantaneous regret": {titled(tag): _line(tag) for tag in INSTANTS.values()},
        "selection rates": {titled(tag): _line(tag) for tag in rates},
    }
    return custom_scalars({title: charts for title, charts in categories.items() if charts})


def _margin(tag: str) -> tuple[str, list[str]]:
    return "Margin", [f"{tag}/{line}" for line in ("mean", "lower", "upper")]


def _line(tag: str) -> tuple[str, list[str]]:
    return "Multiline", [f"{re.escape(tag)}$"]


def config_text(config: Mapping[str, Any]) -> Summary:
    """Puts the config of a run on TensorBoard's Text page."""
    return text_pb("config", f"```json\n{json.dumps(config, indent=2, ensure_ascii=False)}\n```")


def image(tag: str, png: bytes) -> Summary:
    """Puts a PNG file on TensorBoard's Images page."""
    width, height = struct.unpack(">II", png[16:24])  # the header comes first
    shown = Summary.Image(encoded_image_string=png, width=width, height=height, colorspace=4)
    return Summary(value=[Summary.Value(tag=tag, image=shown)])

"""TensorBoard: the event file of a run, the layout of its page and its config."""

from __future__ import annotations

import json
import re
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
from fairbandit.runs.folder import EVENTS
from fairbandit.runs.record import RATE, Curve, Key


class EventWriter:
    """Writes summaries to an event file that TensorBoard can follow while it grows.

    Each step is one record, which holds the scalars of all tags. TensorBoard names the run after
    its folder.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / EVENTS.replace("*", str(time.time_ns()))
        self._records = RecordWriter(path.open("xb"))
        first = Event(wall_time=time.time(), file_version="brain.Event:2")
        self._records.write(first.SerializeToString())

    def add(self, points: Iterable[tuple[int, Mapping[str, float]]]) -> None:
        """Writes the points that `scalars` yields."""
        for step, values in points:
            entries = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
            self.write(Summary(value=entries), step)

    def write(self, summary: Summary, step: int = 0) -> None:
        """Writes a summary and flushes it, so that other processes can read it."""
        event = Event(wall_time=time.time(), step=step, summary=summary)
        self._records.write(event.SerializeToString())
        self._records.flush()

    def close(self) -> None:
        """Writes the buffered records, and closes the file."""
        self._records.close()


def scalars(curves: Mapping[Key, Curve]) -> Iterator[tuple[int, dict[str, float]]]:
    """Yields the rounds where curves are known, with their values by tag.

    A metric has the tags mean, lower and upper (mean ∓ std); a selection rate is a mean only.
    """
    points: dict[int, dict[str, float]] = {}
    for (name, group), curve in curves.items():
        count, means, stds = curve.moments
        for at in np.flatnonzero(count).tolist():
            values = points.setdefault(int(curve.rounds[at]), {})
            mean, std = float(means[at]), float(np.nan_to_num(stds[at]))
            if group is not None:
                values[f"{name}/{group}"] = mean
            else:
                values[f"{name}/mean"] = mean
                values[f"{name}/lower"], values[f"{name}/upper"] = mean - std, mean + std
    yield from sorted(points.items())


def titled(tag: str) -> str:
    """Converts a tag to the title of a chart or of a column.

    >>> titled("fair_regret"), titled("selection_rate/0")
    ('fair regret', 'selection rate, 0')
    """
    return tag.replace("_", " ").replace("/", ", ")


def layout(metrics: Sequence[str], environment: str, groups: Sequence[str]) -> Summary:
    """Returns the layout of metrics and selection rates on TensorBoard's page Custom Scalars.

    TensorBoard joins the layouts of all runs. The rates are below the name of their environment,
    since the groups of others are empty there.
    """
    others = [column for column in metrics if column not in REGRETS]
    rates = [f"{RATE}/{group}" for group in groups]
    categories = {
        "regret": {titled(column): _margin(column) for column in REGRETS},
        "metrics": {titled(column): _margin(column) for column in others},
        f"selection rates, {environment}": {
            titled(tag): ("Multiline", [f"{re.escape(tag)}$"]) for tag in rates
        },
    }
    return custom_scalars({title: charts for title, charts in categories.items() if charts})


def _margin(tag: str) -> tuple[str, list[str]]:
    return "Margin", [f"{tag}/{line}" for line in ("mean", "lower", "upper")]


def config_text(config: Mapping[str, Any]) -> Summary:
    """Returns the config of a run for TensorBoard's Text page."""
    return text_pb("config", f"```json\n{json.dumps(config, indent=2, ensure_ascii=False)}\n```")

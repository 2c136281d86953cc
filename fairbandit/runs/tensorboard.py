"""TensorBoard: the event file of a run, the layout of its page and its config."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
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
    """Writes an event file that TensorBoard can follow while it grows."""

    def __init__(self, folder: Path) -> None:
        path = folder / EVENTS.replace("*", str(time.time_ns()))
        self._records = RecordWriter(path.open("xb"))
        self._write(Event(file_version="brain.Event:2"))

    def add(self, curves: Mapping[Key, Curve]) -> None:
        """Writes a record for each round where curves are known.

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
                    curves_of = {"mean": mean, "lower": mean - std, "upper": mean + std}
                    values |= {f"{name}/{end}": value for end, value in curves_of.items()}
        for step, values in sorted(points.items()):
            entries = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
            self.write(Summary(value=entries), step)

    def write(self, summary: Summary, step: int = 0) -> None:
        """Writes a summary."""
        self._write(Event(step=step, summary=summary))

    def _write(self, event: Event) -> None:
        event.wall_time = time.time()
        self._records.write(event.SerializeToString())
        self._records.flush()  # so that other processes can read it

    def close(self) -> None:
        """Closes the file."""
        self._records.close()


def titled(tag: str) -> str:
    """Converts a tag to the title of a chart or of a column."""
    return tag.replace("_", " ").replace("/", ", ")


def layout(metrics: Sequence[str], environment: str, groups: Sequence[str]) -> Summary:
    """Returns the layout of metrics and selection rates on TensorBoard's page Custom Scalars.

    TensorBoard joins the layouts of all runs. The rates are below the name of their environment,
    since the groups of others are empty there.
    """
    charts = {c: ("Margin", [f"{c}/{end}" for end in ("mean", "lower", "upper")]) for c in metrics}
    rates = [f"{RATE}/{group}" for group in groups]
    categories = {
        "regret": {titled(column): charts.pop(column) for column in REGRETS},
        "metrics": {titled(column): chart for column, chart in charts.items()},
        f"selection rates, {environment}": {
            titled(tag): ("Multiline", [f"{re.escape(tag)}$"]) for tag in rates
        },
    }
    return custom_scalars({title: category for title, category in categories.items() if category})


def config_text(config: Mapping[str, Any]) -> Summary:
    """Returns the config of a run for TensorBoard's Text page."""
    return text_pb("config", f"```json\n{json.dumps(config, indent=2, ensure_ascii=False)}\n```")

"""Curves: every metric over rounds 1 … t at some rounds t, and its final value in each replica.

A run writes them to one small file, `curves.parquet`, which tables, figures, the dashboard and
`fairbandit.load` read. It is a long table with a row for each curve and round: `metric` (its
column, or `selection_rate/GROUP`), `round`, `count`, `mean` and `std` over the replicas where the
metric is known, and in the last row of each curve `final`, the value in each replica.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairbandit.runs.moments import Floats
from fairbandit.streams import CHUNK_ROUNDS

RATE = "selection_rate"
"""The curve of a group's selection rate has this name, followed by `/` and the group."""

EVEN, LOG = 300, 600
"""The largest numbers of evenly spaced and of log-spaced rounds of a curve; TensorBoard keeps at
most 1,000 points of a tag."""

MAX_GROUPS = 8
"""The largest number of groups whose selection rates have curves."""

SCHEMA = pa.schema(
    [
        ("metric", pa.string()),
        ("round", pa.int64()),
        *((name, pa.float64()) for name in ("count", "mean", "std")),
        ("final", pa.list_(pa.float64())),
    ]
)


@dataclass(frozen=True)
class Curve:
    """A metric, reduced over rounds 1 … t, for some rounds t.

    Attributes:
        rounds: the rounds t, ascending; T is the last.
        count: the number of replicas where the metric is known.
        mean: the mean over replicas; NaN where the metric is not known.
        std: the standard deviation over replicas (ddof 1); NaN with one replica.
        final: the metric after round T in each replica, (B,).
    """

    rounds: NDArray[np.int64]
    count: Floats
    mean: Floats
    std: Floats
    final: Floats


def sampled_rounds(rounds: int) -> NDArray[np.int64]:
    """Returns the rounds at which curves are sampled, evenly spaced and log-spaced from 1 to T."""
    if rounds <= LOG:
        return np.arange(1, rounds + 1)
    spaced = np.linspace(1, rounds, EVEN), np.geomspace(1, rounds, LOG)
    return np.unique(np.concatenate(spaced).round().astype(np.int64))


def sampled(
    rounds: int, metrics: Iterable[str], groups: Sequence[str]
) -> dict[str, NDArray[np.int64]]:
    """Returns the rounds of every curve of a run, by name; groups only up to `MAX_GROUPS`.

    The numbers of received candidates are known only at the ends of pieces of `CHUNK_ROUNDS`
    rounds, so selection rates are sampled at the first such end at or after each sampled round.
    """
    steps = sampled_rounds(rounds)
    ends = np.unique(np.minimum(-(-steps // CHUNK_ROUNDS) * CHUNK_ROUNDS, rounds))
    drawn = groups if len(groups) <= MAX_GROUPS else ()
    return dict.fromkeys(metrics, steps) | {f"{RATE}/{name}": ends for name in drawn}


def to_table(curves: Mapping[str, Curve]) -> pa.Table:
    """Converts curves by name to a table of `SCHEMA`."""
    columns: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}
    for name, curve in curves.items():
        columns["metric"] += [name] * len(curve.rounds)
        columns["round"] += curve.rounds.tolist()
        for part in ("count", "mean", "std"):
            columns[part] += getattr(curve, part).tolist()
        columns["final"] += [None] * (len(curve.rounds) - 1) + [curve.final.tolist()]
    return pa.table(columns, schema=SCHEMA)


def from_table(table: pa.Table) -> dict[str, Curve]:
    """Returns the curves in a table of `SCHEMA`, by name."""
    curves = {}
    for name, rows in table.to_pandas().groupby("metric", sort=False):
        rounds, count, mean, std = (rows[key].to_numpy() for key in SCHEMA.names[1:5])
        curves[name] = Curve(rounds, count, mean, std, rows["final"].iloc[-1])
    return curves

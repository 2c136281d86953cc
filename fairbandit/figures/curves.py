"""Regret curves from a run's Parquet files, read a row group at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.maths.moments import Moments
from fairbandit.run.folder import ROUNDS
from fairbandit.run.stored import row_files

POINTS = 300
"""The most points of a curve."""

KINDS = ("fair", "standard")
"""The pseudo-regrets."""


@dataclass(frozen=True)
class Curve:
    """A pseudo-regret over the rounds.

    Attributes:
        rounds: t, ascending, with 1 and T.
        mean: over replicas.
        std: over replicas (ddof 1), NaN with one replica.
    """

    rounds: NDArray[np.int64]
    mean: NDArray[np.float64]
    std: NDArray[np.float64]


def read_curves(folder: Path, summary: Mapping[str, Any], points: int = POINTS) -> dict[str, Curve]:
    """Both pseudo-regrets of a run at evenly spaced rounds.

    Args:
        folder: the run's.
        summary: the run's.
        points: of a curve, at most.

    Returns:
        The curves by `KINDS`.

    Raises:
        FairbanditError: a file is damaged, or rounds are missing.
    """
    rounds, replicas = summary["rounds"], summary["replicas"]
    steps = np.unique(np.linspace(1, rounds, min(points, rounds)).round().astype(np.int64))
    moments = {kind: Moments(len(steps)) for kind in KINDS}
    played = 0
    sums: dict[str, Tensor] = {}
    for first, regrets in _pieces(folder, summary):
        count, width = regrets[KINDS[0]].shape
        if first == 1:
            sums = {kind: torch.zeros(width, dtype=torch.float64) for kind in KINDS}
        low, high = np.searchsorted(steps, [first, first + count])
        at = torch.from_numpy(steps[low:high] - first)
        for kind in KINDS:
            running = regrets[kind].cumsum(0) + sums[kind]
            moments[kind].add(running[at].T, slice(int(low), int(high)))
            sums[kind] = running[-1]
        played += count * width
    if played != rounds * replicas:
        raise FairbanditError(
            f"{folder / ROUNDS} holds {played:,} rounds of all replicas where the summary says "
            f"{rounds * replicas:,}; run it again"
        )
    return {
        kind: Curve(steps, found.mean.numpy(), found.std.numpy()) for kind, found in moments.items()
    }


def _pieces(folder: Path, summary: Mapping[str, Any]) -> Iterator[tuple[int, dict[str, Tensor]]]:
    """First round and regrets (rounds, replicas) of each row group: batch by batch, in order."""
    columns = ["round", *(f"{kind}_regret" for kind in KINDS)]
    for file in row_files(folder, summary):
        for index in range(file.num_row_groups):
            group = file.read_row_group(index, columns=columns)
            numbers = group.column("round").to_numpy()
            first, count = int(numbers[0]), int(numbers[-1] - numbers[0]) + 1
            if count < 1 or len(numbers) % count:
                raise FairbanditError(
                    f"{folder / ROUNDS} holds rounds {first} to {first + count - 1} in "
                    f"{len(numbers)} rows, which are not as many of each; run it again"
                )
            values = (group.column(name).to_numpy() for name in columns[1:])
            shaped = (torch.from_numpy(v.copy()).reshape(count, -1) for v in values)
            yield first, dict(zip(KINDS, shaped, strict=True))

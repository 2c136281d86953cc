"""The metrics of a saved run over its rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fairbandit.maths.moments import Moments
from fairbandit.metrics.reduction import Reduce, RunningReduction
from fairbandit.results.files import row_groups

CURVE_POINTS = 300
"""The largest number of points of a curve."""


@dataclass(frozen=True)
class Curve:
    """A metric, reduced over rounds 1 … t, for some rounds t.

    Attributes:
        rounds: the rounds t, ascending, with 1 and T.
        mean: the mean over replicas; NaN where the metric is not known.
        std: the standard deviation over replicas (ddof 1); NaN with one replica.
    """

    rounds: NDArray[np.int64]
    mean: NDArray[np.float64]
    std: NDArray[np.float64]


def read_curves(
    folder: Path,
    summary: Mapping[str, Any],
    reductions: Mapping[str, Reduce],
    points: int = CURVE_POINTS,
) -> dict[str, Curve]:
    """Reads the curves of metrics at evenly spaced rounds.

    Args:
        folder: the run's folder.
        summary: the run's summary.
        reductions: how each metric is reduced over rounds, by its column in the round log.
        points: the largest number of points of a curve.

    Returns:
        The curves by column.

    Raises:
        FairbanditError: a file is damaged, or rounds are missing.
    """
    rounds = summary["rounds"]
    steps = np.unique(np.linspace(1, rounds, min(points, rounds)).round().astype(np.int64))
    moments = {column: Moments(len(steps)) for column in reductions}
    running: dict[str, RunningReduction] = {}
    for group in row_groups(folder, summary, list(reductions)):
        for column, values in group.columns.items():
            replicas, count = values.shape
            if group.first == 1:
                running[column] = RunningReduction(reductions[column], replicas)
            low, high = np.searchsorted(steps, [group.first, group.first + count])
            here = torch.from_numpy(steps[low:high] - group.first)
            reduced = running[column].add(values)
            moments[column].add(reduced[:, here], slice(int(low), int(high)))
    return {
        column: Curve(steps, found.mean.numpy(), found.std.numpy())
        for column, found in moments.items()
    }

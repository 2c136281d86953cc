"""The comparison: a table of runs by metrics, whose cells are coloured by rank."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.errors import FairbanditError
from fairbandit.figures.facets import Facet, Options, check_count
from fairbandit.figures.style import SMALL, WIDTH, applied, metric_name, wrapped
from fairbandit.maths.moments import Floats
from fairbandit.results import PooledRuns, Scene
from fairbandit.results.pooling import paired_difference
from fairbandit.run.table import spread, written

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW, _HIGHER = 0.27, 0.37  # inches of a row with two and with three lines of text
_LABELS = 1.45  # inches of the runs' names
_COLUMNS = 10  # the most columns beside each other
_HEAD, _SPREAD = 6.0, 5.5  # points: the sizes of metrics' names and of what is below a mean
_HEAD_LETTERS = 11  # of a line above a column, where there are ten
_BEST, _WORST = 0.56, 0.03  # the part of the colour map YlGnBu on which black is easy to read
_PLAIN = "#f2f2f2"
_RELATIVE, _ABSOLUTE = 1e-9, 1e-12  # how far apart values are that differ by rounding alone


def compose_comparison(scene: Scene, options: Options) -> Figure:
    """Draws a row for each run and a column for each metric after the last round.

    A cell has the mean over all replicas, and the standard deviation or the interval of the mean
    below it. Its colour tells the rank among the runs with the same number of rounds. Bold are the
    means of the best and of all whose paired difference to it has an interval with 0 in it; a
    column in which these are all runs is not coloured. Runs of policies that know the truth stand
    below the others, without a rank. Metrics of which no run knows the value are named below.

    Raises:
        FairbanditError: there are too many runs, or none that knows the value of a metric.
    """
    check_count(scene)
    known = [
        column
        for column in scene.metrics
        if any(run.metrics.get(column, {}).get("mean") is not None for run in scene.runs)
    ]
    if not known:
        raise FairbanditError(
            f"no run in {scene.name} knows the value of a metric, because there is no truth; "
            "metrics={COLUMN: NAME} asks for metrics that need none when a run is played"
        )
    facet = Facet(scene, scene, options=options)
    parts = [
        tuple(run for run in scene.runs if run.knows_truth == knows) for knows in (False, True)
    ]
    pieces = np.array_split(known, math.ceil(len(known) / _COLUMNS))
    plan = [(piece.tolist(), runs) for piece in pieces for runs in parts if runs]
    heights = [len(runs) for _, runs in plan]
    with applied():
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        width = WIDTH if len(known) > 4 else _LABELS + 0.5 + 0.75 * len(known)
        row = _HIGHER if options.interval else _ROW
        height = row * sum(heights) + 0.75 * len(pieces) + 0.3 * len(plan) + 0.7
        size = options.size or (width, height)
        figure = Figure(size, layout=ConstrainedLayoutEngine(hspace=0, h_pad=0.02))
        grid = figure.add_gridspec(len(plan), 1, height_ratios=heights)
        for at, (columns, runs) in enumerate(plan):
            axes = figure.add_subplot(grid[at])
            heads = at == 0 or columns != plan[at - 1][0]
            _fill(axes, facet, runs, columns, heads=heads)
        if facet.policy:
            figure.suptitle(facet.policy)
        _explain(figure, facet, known, size[0])
    return figure


def _fill(
    axes: Axes, facet: Facet, runs: Sequence[PooledRuns], columns: Sequence[str], *, heads: bool
) -> None:
    """Draws the cells of some runs and metrics, with names on the left and, if wished, above."""
    from matplotlib.colors import to_rgb

    colours = np.full((len(runs), len(columns), 3), to_rgb(_PLAIN))
    for at, column in enumerate(columns):
        ranks, ties = rank(runs, column)
        for row, run in enumerate(runs):
            if not math.isnan(ranks[row]) and not all(ties[~np.isnan(ranks)]):
                colours[row, at] = to_rgb(colour(ranks[row]))
            mean, below = _texts(run.metrics.get(column, {}), interval=facet.options.interval)
            weight = "bold" if ties[row] else "normal"
            middle: dict[str, Any] = {"ha": "center", "fontsize": SMALL, "fontweight": weight}
            y = row - 0.15 * below.count("\n")
            axes.text(at, y, mean, va="baseline" if below else "center_baseline", **middle)
            axes.text(at, y + 0.08, below, ha="center", va="top", fontsize=_SPREAD)
    axes.imshow(colours, aspect="auto")
    axes.set_xticks(np.arange(len(columns) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(runs) + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=0.8)
    axes.spines[:].set_visible(False)
    axes.tick_params(which="both", length=0, labeltop=True, labelbottom=False)
    axes.set_yticks(range(len(runs)), [wrapped(facet.looks[r.label].name, _LABELS) for r in runs])
    letters = _HEAD_LETTERS * _COLUMNS // max(len(columns), 5)
    axes.set_xticks(
        range(len(columns)),
        [textwrap.fill(metric_name(one), letters) + _arrow(facet, one) for one in columns]
        if heads
        else [""] * len(columns),
        fontsize=_HEAD,
    )
    if runs[0].knows_truth:
        axes.set_title(
            "these know the truth, and are not ranked", loc="left", style="italic", fontsize=SMALL
        )


def rank(runs: Sequence[PooledRuns], column: str) -> tuple[Floats, Any]:
    """Ranks runs by a metric, among those with the same number of rounds.

    Args:
        runs: the R runs.
        column: the metric.

    Returns:
        The ranks, from 0 for the best to 1 for the worst, at equal distances, (R,); equal values
        have one rank, and NaN stands for runs that know the truth or not the value. And whether a
        run is the best, or the interval of its paired difference to the best contains 0, (R,).
    """
    ranks, ties = np.full(len(runs), np.nan), np.zeros(len(runs), bool)
    for rounds in {run.rounds for run in runs}:
        rows = [
            row
            for row, run in enumerate(runs)
            if run.rounds == rounds
            and not run.knows_truth
            and run.metrics.get(column, {}).get("mean") is not None
        ]
        if not rows:
            continue
        ends = [runs[row].metrics[column] for row in rows]
        signs = [1 if end["lower_is_better"] else -1 for end in ends]
        values = np.array([end["mean"] for end in ends]) * signs
        order = np.argsort(values, kind="stable")
        ordered = values[order]
        steps = ~np.isclose(ordered[1:], ordered[:-1], rtol=_RELATIVE, atol=_ABSOLUTE)
        ranks[np.array(rows)[order]] = np.concatenate([[0], steps.cumsum()]) / max(steps.sum(), 1)
        best = runs[rows[order[0]]]
        for row in rows:
            ties[row] = ranks[row] == 0 or _ties(runs[row], best, column)
    return ranks, ties


def _ties(run: PooledRuns, best: PooledRuns, column: str) -> bool:
    """Whether 0 is in the interval of the paired difference, if they have replicas in common."""
    found = paired_difference(run, best, column)
    return found is not None and found["low"] <= 0 <= found["high"]


def _texts(end: Mapping[str, Any], *, interval: bool) -> tuple[str, str]:
    """The mean, and what stands below it."""
    if end.get("mean") is None:
        return "–", ""
    if interval and end["low"] is not None:
        half = (end["high"] - end["low"]) / 2
        return written(end["mean"], half), "\nto ".join(
            written(end[k], half) for k in ("low", "high")
        )
    mean, sign, std = spread(end).partition(" ± ")
    return mean, sign.strip() + std


def colour(rank: float) -> str:
    """Returns the colour of a rank, from 0 for the best to 1 for the worst."""
    import matplotlib
    from matplotlib.colors import to_hex

    return to_hex(matplotlib.colormaps["YlGnBu"](_BEST + (_WORST - _BEST) * rank))


def _arrow(facet: Facet, column: str) -> str:
    end = next(run.metrics[column] for run in facet.scene.runs if column in run.metrics)
    return "\n↓" if end["lower_is_better"] else "\n↑"


def _explain(figure: Figure, facet: Facet, known: Sequence[str], width: float) -> None:
    """Writes below the table what the numbers, the colours and the arrows are."""
    runs = facet.scene.runs
    horizons = sorted({run.rounds for run in runs})
    replicas = sorted({run.replicas for run in runs})
    at = f"T = {horizons[0]:,}" if len(horizons) == 1 else "T"
    many = " to ".join(f"{count:,}" for count in dict.fromkeys((replicas[0], replicas[-1])))
    said = [f"Mean at {at} over {many} replicas"]
    if replicas[-1] > 1:
        said[0] += ", below it its 95 % interval" if facet.options.interval else " ± 1 std"
    said += ["↓ lower is better, ↑ higher is better"]
    if not all(run.knows_truth for run in runs):
        said += ["the darker a cell, the better its rank; a column in which all tie is grey"]
        said += ["bold: the best, and all within the 95 % interval of the paired difference to it"]
    if len(horizons) > 1:
        said += ["ranks are among runs of equal T"]
    unknown = [metric_name(column) for column in facet.scene.metrics if column not in known]
    if unknown:
        said += [f"not known here: {', '.join(unknown)}"]
    figure.supxlabel(wrapped(f"{'; '.join(said)}.", width), fontsize=SMALL, x=0.01, ha="left")

"""The comparison: a table of runs by metrics, whose cells are coloured by rank."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.errors import FairbanditError
from fairbandit.figures.facets import Facet, Options, check_count
from fairbandit.figures.style import SMALL, WIDTH, applied, wrapped
from fairbandit.maths.moments import Floats
from fairbandit.results import PooledRuns, Scene
from fairbandit.results.pooling import paired_difference
from fairbandit.run.table import spread, written
from fairbandit.run.tensorboard import titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW, _TALL_ROW = 0.27, 0.37  # inches of a row with two and with three lines of text
_LABELS = 1.45  # inches for the names of runs
_COLUMN, _NARROWEST = 0.75, 0.48  # the preferred and the least inches of a column
_HEAD, _SPREAD = 6.0, 5.5  # points: fonts of metrics' names and of the text below a mean
_LETTERS_PER_INCH = 22  # of a metric's name above its column
_BEST, _WORST = 0.56, 0.03  # the part of the colour map YlGnBu on which black is readable
_PLAIN = "#f2f2f2"  # the colour of cells without a rank
_RELATIVE, _ABSOLUTE = 1e-9, 1e-12  # tolerances: closer values are equal up to rounding


def compose_comparison(scene: Scene, options: Options) -> Figure:
    """Draws a row for each run and a column for each metric after the last round.

    A cell shows the mean over all replicas and, below it, the standard deviation or the interval of
    the mean. Its colour shows the rank among runs with the same number of rounds. The best mean is
    bold, and so are those whose interval of the paired difference to the best contains 0; a column
    in which all ranked means are bold is not coloured. Runs of policies that know the truth follow
    without ranks. Metrics without a value in any run are named below the table.

    Raises:
        FairbanditError: there are too many runs, or no run has a value of any metric.
    """
    check_count(scene)
    known = [c for c in scene.metrics if any(_mean(run, c) is not None for run in scene.runs)]
    if not known:
        raise FairbanditError(
            f"no run in {scene.name} knows the value of a metric, because there is no truth; "
            "metrics={COLUMN: NAME} asks for metrics that need none when a run is played"
        )
    facet = Facet(scene, scene, options=options)
    parts = [[run for run in scene.runs if run.knows_truth == knows] for knows in (False, True)]
    parts = [runs for runs in parts if runs]
    with applied():
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        beside = _LABELS + 0.5
        width = max(min(WIDTH, beside + _COLUMN * len(known)), beside + _NARROWEST * len(known))
        row = _TALL_ROW if options.interval else _ROW
        height = row * len(scene.runs) + 0.3 * len(parts) + 1.45
        figure = Figure(options.size or (width, height))
        figure.set_layout_engine(ConstrainedLayoutEngine(hspace=0, h_pad=0.02))
        panels = figure.subplots(len(parts), height_ratios=list(map(len, parts)), squeeze=False)
        letters = int(_LETTERS_PER_INCH * (figure.get_figwidth() - beside) / len(known))
        ends = [next(r.metrics[c] for r in scene.runs if c in r.metrics) for c in known]
        arrows = ["↓" if end["lower_is_better"] else "↑" for end in ends]
        titles = [textwrap.fill(titled(column), letters) for column in known]
        heads = list(map("\n".join, zip(titles, arrows, strict=True)))
        for at, (axes, runs) in enumerate(zip(panels[:, 0], parts, strict=True)):
            _fill(axes, facet, runs, known)
            axes.set_xticks(range(len(known)), heads if at == 0 else [""] * len(known))
        if facet.policy:
            figure.suptitle(facet.policy)
        _explain(figure, facet, known)
    return figure


def _fill(axes: Axes, facet: Facet, runs: Sequence[PooledRuns], columns: Sequence[str]) -> None:
    from matplotlib.colors import to_rgb

    colours = np.full((len(runs), len(columns), 3), to_rgb(_PLAIN))
    for at, column in enumerate(columns):
        ranks, ties = rank(runs, column)
        for row, run in enumerate(runs):
            if not math.isnan(ranks[row]) and not all(ties[~np.isnan(ranks)]):
                colours[row, at] = to_rgb(colour(ranks[row]))
            mean, below = _texts(run.metrics.get(column, {}), interval=facet.options.interval)
            weight = "bold" if ties[row] else "normal"
            style: dict[str, Any] = {"ha": "center", "fontsize": SMALL, "fontweight": weight}
            y = row - 0.15 * below.count("\n")
            axes.text(at, y, mean, va="baseline" if below else "center_baseline", **style)
            axes.text(at, y + 0.08, below, ha="center", va="top", fontsize=_SPREAD)
    axes.imshow(colours, aspect="auto")
    axes.set_xticks(np.arange(len(columns) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(runs) + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=0.8)
    axes.spines[:].set_visible(False)
    axes.tick_params(which="both", length=0, labeltop=True, labelbottom=False)
    axes.tick_params(axis="x", labelsize=_HEAD)
    axes.set_yticks(range(len(runs)), [wrapped(facet.looks[r.label].name, _LABELS) for r in runs])
    if runs[0].knows_truth:
        title = "these know the truth, and are not ranked"
        axes.set_title(title, loc="left", style="italic", fontsize=SMALL)


def rank(runs: Sequence[PooledRuns], column: str) -> tuple[Floats, Any]:
    """Ranks runs by a metric, among those with the same number of rounds.

    Returns:
        The ranks of the R runs, at equal distances from 0 for the best to 1 for the worst; equal
        values share a rank, and runs that know the truth or lack the metric have NaN. And, (R,),
        whether a run is the best, or the interval of its paired difference to it contains 0.
    """
    ranks, ties = np.full(len(runs), np.nan), np.zeros(len(runs), bool)
    for rounds in {run.rounds for run in runs}:
        known = [None if r.knows_truth or r.rounds != rounds else _mean(r, column) for r in runs]
        rows = [row for row, mean in enumerate(known) if mean is not None]
        if not rows:
            continue
        ends = [runs[row].metrics[column] for row in rows]
        values = np.array([end["mean"] * (1 if end["lower_is_better"] else -1) for end in ends])
        order = np.argsort(values, kind="stable")
        ordered = values[order]
        steps = ~np.isclose(ordered[1:], ordered[:-1], rtol=_RELATIVE, atol=_ABSOLUTE)
        ranks[np.array(rows)[order]] = np.concatenate([[0], steps.cumsum()]) / max(steps.sum(), 1)
        best = runs[rows[order[0]]]
        for row in rows:
            difference = paired_difference(runs[row], best, column)
            near = difference is not None and difference["low"] <= 0 <= difference["high"]
            ties[row] = ranks[row] == 0 or near
    return ranks, ties


def _mean(run: PooledRuns, column: str) -> float | None:
    return run.metrics.get(column, {}).get("mean")


def _texts(end: Mapping[str, Any], *, interval: bool) -> tuple[str, str]:
    """The texts of a cell: the mean, and below it the standard deviation or the interval."""
    if end.get("mean") is None:
        return "–", ""
    if interval and end["low"] is not None:
        half = (end["high"] - end["low"]) / 2
        low, mean, high = (written(end[key], half) for key in ("low", "mean", "high"))
        return mean, f"{low}\nto {high}"
    mean, sign, std = spread(end).partition(" ± ")
    return mean, sign.strip() + std


def colour(rank: float) -> str:
    """Returns the colour of a rank, from 0 for the best to 1 for the worst."""
    import matplotlib
    from matplotlib.colors import to_hex

    return to_hex(matplotlib.colormaps["YlGnBu"](_BEST + (_WORST - _BEST) * rank))


def _explain(figure: Figure, facet: Facet, known: Sequence[str]) -> None:
    runs = facet.scene.runs
    horizons = sorted({run.rounds for run in runs})
    replicas = sorted({run.replicas for run in runs})
    at = f"T = {horizons[0]:,}" if len(horizons) == 1 else "T"
    many = " to ".join(f"{count:,}" for count in dict.fromkeys((replicas[0], replicas[-1])))
    parts = [f"Mean at {at} over {many} replicas"]
    if replicas[-1] > 1:
        parts[0] += ", below it its 95 % interval" if facet.options.interval else " ± 1 std"
    parts += ["↓ lower is better, ↑ higher is better"]
    if not all(run.knows_truth for run in runs):
        parts += ["the darker a cell, the better its rank; a column in which all tie is grey"]
        parts += ["bold: the best, and all within the 95 % interval of the paired difference to it"]
    if len(horizons) > 1:
        parts += ["ranks are among runs of equal T"]
    unknown = [titled(column) for column in facet.scene.metrics if column not in known]
    if unknown:
        parts += [f"not known here: {', '.join(unknown)}"]
    text = wrapped(f"{'; '.join(parts)}.", figure.get_figwidth())
    figure.supxlabel(text, fontsize=SMALL, x=0.01, ha="left")

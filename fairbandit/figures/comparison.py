"""The comparison: a table of runs by metrics, whose cells are coloured by rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.errors import FairbanditError
from fairbandit.figures.layout import Facet, Options, whole
from fairbandit.figures.style import applied, setting, wrapped
from fairbandit.runs.overview import rank
from fairbandit.runs.scenes import Scene
from fairbandit.runs.sheets import spread
from fairbandit.runs.tensorboard import titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW = 0.27  # height of a row in inches
_LABELS = 1.45  # width of the names of runs
_COLUMN, _NARROWEST = 0.75, 0.48  # preferred and minimal width of a column
_BEST, _WORST = 0.56, 0.03  # the range of the colour map YlGnBu where black text is readable
_PLAIN = "#f2f2f2"  # the colour of cells without a rank


def compose_comparison(scene: Scene, options: Options) -> Figure:
    """Draws a row for each run and a column for each metric after the last round."""
    from matplotlib.figure import Figure

    finals = {c: [run.metrics[c] for run in scene.runs if c in run.metrics] for c in scene.metrics}
    columns = [c for c, values in finals.items() if any(end["mean"] is not None for end in values)]
    if not columns:
        raise FairbanditError(
            f"all metrics of the runs in {scene.name} are unknown, because the environment lacks a "
            "ground truth; play runs with metrics={COLUMN: NAME} for metrics that do not need it"
        )
    facet = whole(scene, options)
    facet = replace(facet, runs=sorted(facet.runs, key=lambda run: run.knows_truth))
    with applied():
        small = setting("xtick.labelsize")
        width = options.width or setting("figure.figsize")[0]
        labels = min(_LABELS, 0.3 * width)
        margin = labels + 0.5
        if options.width is None:
            width = min(width, margin + _COLUMN * len(columns))
        lines = -(-len(columns) // max(1, int((width - margin) / _NARROWEST + 1e-9)))
        each = -(-len(columns) // lines)  # columns beside each other; others follow below
        names = [facet.looks[run.label].name + "*" * run.knows_truth for run in facet.runs]
        names = [wrapped(name, labels) for name in names]
        row = max(_ROW, 0.13 * (1 + max(name.count("\n") for name in names)))
        text = wrapped(_explanation(facet, columns), 0.98 * width, small)
        foot = 0.15 * (2 + text.count("\n"))
        needed = lines * (row * len(names) + 1) + foot
        figure = Figure((width, needed), layout="constrained")
        for line, axes in enumerate(figure.subplots(lines, squeeze=False)[:, 0]):
            shown_columns = columns[line * each : (line + 1) * each]
            _fill(axes, facet, shown_columns)
            axes.set_xlim(-0.5, each - 0.5)
            axes.set_yticks(range(len(names)), names)
            heads = [
                f"{wrapped(titled(c), (width - margin) / each - 0.02, 6)}\n"
                f"{'↓' if finals[c][0]['lower_is_better'] else '↑'}"
                for c in shown_columns
            ]
            axes.set_xticks(range(len(shown_columns)), heads, fontsize=6)
        figure.suptitle(facet.shared)
        figure.supxlabel(text, fontsize=small, x=0.01, ha="left")
    return figure


def _fill(axes: Axes, facet: Facet, columns: Sequence[str]) -> None:
    import matplotlib

    runs, size = facet.runs, setting("xtick.labelsize")
    shades = np.full((len(runs), len(columns)), np.nan)
    for at, column in enumerate(columns):
        ranks, ties = rank(runs, column)
        if not all(ties[~np.isnan(ranks)]):
            shades[:, at] = _BEST + (_WORST - _BEST) * ranks
        for row, run in enumerate(runs):
            end = run.metrics.get(column, {"mean": None, "std": None, "low": None})
            mean, below = _cell(end, interval=facet.options.interval == "mean")
            style: dict[str, Any] = {"fontweight": "bold" if ties[row] else "normal"}
            style["va"] = "baseline" if below else "center_baseline"
            axes.text(at, row, mean, ha="center", fontsize=size, **style)
            axes.text(at, row + 0.08, below, ha="center", va="top", fontsize=5.5)
    colours = matplotlib.colormaps["YlGnBu"].with_extremes(bad=_PLAIN)
    axes.imshow(shades, aspect="auto", cmap=colours, vmin=0, vmax=1)
    axes.set_xticks(np.arange(len(columns) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(runs) + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=0.8)
    axes.spines[:].set_visible(False)
    axes.tick_params(which="both", length=0, labeltop=True, labelbottom=False)


def _cell(end: Mapping[str, Any], *, interval: bool) -> tuple[str, str]:
    """Returns the two lines of a cell: the mean, and its std or half its interval."""
    half = end["std"]
    if interval:
        half = None if end["low"] is None else (end["high"] - end["low"]) / 2
    mean, sign, beside = spread({**end, "std": half}).partition(" ± ")
    return mean, sign.strip() + beside


def _explanation(facet: Facet, columns: Sequence[str]) -> str:
    rounds, replicas = (
        " to ".join(f"{count:,}" for count in sorted({min(counts), max(counts)}))
        for counts in zip(*((run.rounds, run.replicas) for run in facet.runs), strict=True)
    )
    spread = " ± half its 95 % interval" if facet.options.interval == "mean" else " ± 1 std"
    parts = [
        f"Mean{spread} at T = {rounds} over {replicas} replicas",
        "↓ lower is better, ↑ higher is better",
        "the darker a cell, the better its rank among runs of equal T",
        "a column is grey where no difference to the best is clear",
        "bold: the best, and all within the 95 % interval of the paired difference to it",
    ]
    if any(run.knows_truth for run in facet.runs):
        parts += ["* knows the truth, and is not ranked"]
    unknown = [titled(column) for column in facet.scene.metrics if column not in columns]
    if unknown:
        parts += [f"not known here: {', '.join(unknown)}"]
    return f"{'; '.join(parts)}."

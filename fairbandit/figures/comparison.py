"""The comparison: a table of runs by metrics, whose cells are coloured by rank."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.errors import FairbanditError
from fairbandit.figures.parts import Part, check_count
from fairbandit.figures.ranking import Ranking, rank, written
from fairbandit.figures.style import SMALL, WIDTH, applied, metric_name, text_width, wrapped
from fairbandit.results import Scene
from fairbandit.results.pooling import LEVEL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LINE = 0.112  # inches of a line of text
_ROW = 0.27  # inches of a row whose label has at most two lines
_ASIDE = 0.24  # inches between the ranked runs and the others
_LABEL = 1.36  # the most inches of a line of a label
_WIDEST = 0.9  # the most inches of a column, unless a number needs more
_LEAST = 1.9  # the least inches beside the labels
_WORD = 0.55  # the most inches of a word that is not broken
_PAD = 0.03  # inches beside a text
_BOLD = 1.12  # how much wider bold text is
_HEAD, _HALF = 6.0, 5.5  # points: the sizes of metrics' names and of half intervals
_KEY = 0.13  # inches of a colour of the key
_COLOURS = 7  # colours of the key

_BEST, _WORST = 0.56, 0.03  # the part of the colour map YlGnBu on which black is easy to read
_UNRANKED = "#f2f2f2"
_KNOWING = "these know the truth, and are not ranked"


def compose_comparison(scene: Scene) -> Figure:
    """Draws a row for each run and a column for each metric after the last round.

    A cell has the mean over all replicas, and half of its confidence interval. Its colour tells
    the rank among the runs with the same number of rounds: the darkest is the best, whose mean is
    bold. Runs of policies that know the truth stand below the others, without a rank. Metrics of
    which no run knows the value are named below the table. Columns that find no room beside the
    others follow below them, with the runs' names again.

    Raises:
        FairbanditError: there are too many runs, none that knows the value of a metric, or one of a
            part that is not registered.
    """
    from matplotlib.figure import Figure

    table = _Table(scene)
    with applied():
        figure = Figure(figsize=(table.width, table.height))
        edge = table.height - table.title
        figure.text(0.5, edge / table.height, table.part.policy, ha="center", va="bottom")
        for columns in table.blocks:
            edge -= table.head(columns) + table.body
            size = table.column * len(columns), table.body
            _fill(_axes(figure, (table.left, edge), size), table, columns)
        _explain(figure, table)
    return figure


class _Table:
    """What a comparison says, and the room in inches that it takes.

    Args:
        scene: the runs.

    Attributes:
        part: the runs with their names.
        ranking: their values.
        labels: the runs' names, broken into lines.
        heads: the metrics' names with an arrow in the better direction, broken into lines.
        cells: the text of each cell: the mean and half of its interval.
        rows: the upper and the lower edge of each row, from the first one's upper edge.
        blocks: the columns of each piece of the table.
        notes: the lines of text below the table.
        left: the width of the labels.
        column: the width of a column.
        width: the width of the figure.
        title: the height of the title.
        foot: the height of what stands below the table.

    Raises:
        FairbanditError: as `compose_comparison`.
    """

    def __init__(self, scene: Scene) -> None:
        check_count(scene)
        self.part, self.ranking = Part(scene, scene), rank(scene)
        ranking, looks = self.ranking, self.part.looks
        if not ranking.columns:
            raise FairbanditError(
                f"no run in {scene.name} knows the value of a metric, because there is no truth; "
                "metrics={COLUMN: NAME} asks for metrics that need none when a run is played"
            )
        self.labels = [wrapped(looks[run.label].name, _LABEL, SMALL) for run in ranking.runs]
        self.rows = _edges(self.labels, ranking.ranked)
        spreads = zip(ranking.mean.tolist(), ranking.half.tolist(), strict=True)
        self.cells = [[written(*pair) for pair in zip(*both, strict=True)] for both in spreads]
        names = [metric_name(column) for column in ranking.columns]
        words = min(_WORD, _widest([re.sub("[ -]", "\n", name) for name in names], _HEAD))
        values = max(_BOLD * _widest([mean for mean, _ in row]) for row in self.cells)
        self.left = _widest(self.labels) + 2 * _PAD
        needed, room = max(words, values) + 2 * _PAD, WIDTH - self.left
        pieces = math.ceil(len(names) / max(1, int(room / needed)))
        self.blocks = [part.tolist() for part in np.array_split(range(len(names)), pieces)]
        most = len(self.blocks[0])
        self.column = max(needed, min(_WIDEST, room / most))
        self.width = self.left + max(_LEAST, self.column * most)
        self.heads = [
            f"{wrapped(name, self.column - 2 * _PAD, _HEAD)}\n{'↓' if lower else '↑'}"
            for name, lower in zip(names, ranking.lower, strict=True)
        ]
        self.notes = wrapped(_notes(ranking), self.width - 2 * _PAD, SMALL).splitlines()
        self.title = 2 * _LINE if self.part.policy else 0.0
        self.foot = _LINE * (len(self.notes) + 3)

    @property
    def body(self) -> float:
        """The height of all rows."""
        return self.rows[-1][1]

    @property
    def height(self) -> float:
        """The height of the figure."""
        pieces = sum(self.head(columns) + self.body for columns in self.blocks)
        return self.title + pieces + self.foot

    def head(self, columns: Sequence[int]) -> float:
        """The height of the metrics' names above a piece of the table."""
        return _LINE * (1.5 + max(self.heads[column].count("\n") + 1 for column in columns))


def _edges(labels: Sequence[str], ranked: int) -> list[tuple[float, float]]:
    """The upper and the lower edge of each row; the runs that are not ranked stand apart."""
    heights = [max(_ROW, _LINE * (label.count("\n") + 1.5)) for label in labels]
    above = [_ASIDE if row == ranked else 0.0 for row in range(len(labels))]
    lower = np.cumsum(np.add(heights, above))
    return list(zip((lower - heights).tolist(), lower.tolist(), strict=True))


def _widest(texts: Sequence[str], size: float = SMALL) -> float:
    """The inches of the widest line of some texts."""
    return max(text_width(line, size) for text in texts for line in text.splitlines())


def _notes(ranking: Ranking) -> str:
    """Says what the numbers are, and what is not shown."""
    horizons = sorted({run.rounds for run in ranking.runs})
    replicas = sorted({run.replicas for run in ranking.runs})
    at = f" at T = {horizons[0]:,}" if len(horizons) == 1 else " at T"
    several = f"{replicas[0]:,}" if len(replicas) == 1 else f"{replicas[0]:,} to {replicas[-1]:,}"
    told = [f"Mean{at} over {several} replicas"]
    if replicas[-1] > 1:
        told[0] += f", ± half of its {100 * LEVEL:g} % interval"
    arrows = {True: "↓ lower is better", False: "↑ higher is better"}
    told += [text for lower, text in arrows.items() if lower in ranking.lower]
    if len(horizons) > 1:
        told.append("ranks are among runs of equal T")
    if ranking.unknown:
        told.append(f"not known here: {', '.join(map(metric_name, ranking.unknown))}")
    return f"{'; '.join(told)}."


def _axes(figure: Figure, corner: tuple[float, float], size: tuple[float, float]) -> Axes:
    """Adds axes without lines at a place in inches, their units too; y goes down."""
    width, height = figure.get_size_inches()
    (left, bottom), (across, along) = corner, size
    axes = figure.add_axes((left / width, bottom / height, across / width, along / height))
    axes.set(xlim=(0, across), ylim=(along, 0), xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, pad=72 * _PAD, labeltop=True, labelbottom=False)
    return axes


def _fill(axes: Axes, table: _Table, columns: Sequence[int]) -> None:
    """Draws some columns of the table."""
    ranking = table.ranking
    centres = [table.column * (place + 0.5) for place in range(len(columns))]
    axes.set_xticks(centres, [table.heads[column] for column in columns], fontsize=_HEAD)
    axes.set_yticks([(top + bottom) / 2 for top, bottom in table.rows], table.labels)
    for row, (top, bottom) in enumerate(table.rows):
        for centre, column in zip(centres, columns, strict=True):
            standing = float(ranking.standing[row, column])
            colour = _UNRANKED if math.isnan(standing) else _colour(standing)
            _box(axes, (centre - table.column / 2, top), (table.column, bottom - top), colour)
            middle = centre, (top + bottom) / 2
            _write(axes, middle, table.cells[row][column], bold=standing == 0)
    if ranking.ranked < len(table.rows):
        top, _ = table.rows[ranking.ranked]
        axes.axhline(top - 0.75 * _ASIDE, color="black", linewidth=0.6)
        style: dict[str, Any] = {"fontsize": _HALF, "style": "italic", "va": "center"}
        axes.text(_PAD, top - _ASIDE / 3, _KNOWING, **style)


def _write(axes: Axes, middle: tuple[float, float], texts: tuple[str, str], *, bold: bool) -> None:
    """Writes a mean, and half of its interval below it."""
    (x, y), (mean, half) = middle, texts
    weight = "bold" if bold else "normal"
    if not half:
        axes.text(x, y, mean, ha="center", va="center_baseline", fontweight=weight, fontsize=SMALL)
        return
    axes.text(x, y, mean, ha="center", va="baseline", fontweight=weight, fontsize=SMALL)
    axes.text(x, y + _LINE / 4, half, ha="center", va="top", fontsize=_HALF)


def _colour(standing: float) -> str:
    """The colour of a rank, from 0 for the best to 1 for the worst."""
    import matplotlib
    from matplotlib.colors import to_hex

    return to_hex(matplotlib.colormaps["YlGnBu"](_BEST + (_WORST - _BEST) * standing))


def _explain(figure: Figure, table: _Table) -> None:
    """Draws the key of the colours, and the notes below it."""
    axes = _axes(figure, (0.0, 0.0), (table.width, table.foot))
    style: dict[str, Any] = {"fontsize": SMALL, "va": "center_baseline"}
    x, y = _PAD, 1.5 * _LINE
    if table.ranking.ranked:
        axes.text(x, y, "best", **style)
        x += text_width("best", SMALL) + _PAD
        for place in range(_COLOURS):
            colour = _colour(place / (_COLOURS - 1))
            _box(axes, (x + place * _KEY, y - _KEY / 2), (_KEY, _KEY), colour)
        axes.text(x + _COLOURS * _KEY + _PAD, y, "worst within the metric", **style)
        y += 1.5 * _LINE
    for line in table.notes:
        axes.text(_PAD, y, line, **style)
        y += _LINE


def _box(axes: Axes, corner: tuple[float, float], size: tuple[float, float], colour: str) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle(corner, *size, facecolor=colour, edgecolor="white", linewidth=0.8))

"""Legends, which stand beside data and never over them, and the room that they need."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.figures.style import DPI, SMALL, text_width, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

_HANDLE = 0.31  # inches of a legend's line and its distance from its text
_BETWEEN = 0.11  # inches between the columns of a legend
_LINE = 0.11  # inches of a line of labels
_EDGE = 0.04  # inches of a legend left and right of its contents
_GAP = 0.1  # inches above a legend

Entries = tuple[Sequence[Any], Sequence[str]]
"""The handles and the labels of a legend."""


def entries(axes: Axes) -> Entries:
    """Returns what a legend of the runs in a panel shows."""
    handles, labels = axes.get_legend_handles_labels()
    # error bars would hide the small markers of a legend
    return [handle[0] if isinstance(handle, tuple) else handle for handle in handles], labels


def above_figure(figure: Figure, shown: Entries, title: str) -> float:
    """Places a legend above all panels; returns the inches that it takes."""
    width = figure.get_figwidth() - 0.2
    place = partial(figure.legend, loc="outside upper center")
    return _fitted(place, shown, width, wrapped(title, width, SMALL))


def above(axes: Axes, shown: Entries, title: str, width: float) -> float:
    """Places a legend above a panel of a width in inches; returns the inches that it takes."""
    place = partial(axes.legend, loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.2)
    return _fitted(place, shown, width, wrapped(title, width, SMALL))


def within(axes: Axes, width: float) -> float:
    """Places a legend of a panel's lines at its upper edge; returns the inches that it takes.

    `make_headroom` then moves the data below it.
    """
    if not axes.get_lines():
        return 0.0
    place = partial(axes.legend, loc="upper center", borderaxespad=0.0)
    return _fitted(place, entries(axes), width)


def below(axes: Axes) -> float:
    """Returns the inches that the labels of the horizontal axis take beyond a line."""
    tallest = max(label.get_window_extent().height for label in axes.get_xticklabels())
    return max(0.0, float(tallest / DPI) - _LINE)


def settle(figure: Figure) -> None:
    """Gives the panels of a figure the sizes for which there is room, unless they are fixed."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)


def make_headroom(figure: Figure, panels: Sequence[Axes]) -> None:
    """Extends the vertical axes of panels with a legend `within`, so that it is above their data.

    The rest of the figure must be complete, since sizes of panels are settled here.
    """
    if panels:
        settle(figure)
    for axes in panels:
        legend = axes.get_legend()
        if legend is not None:
            low, high = axes.get_ylim()
            share = legend.get_window_extent().height / axes.get_window_extent().height
            axes.set_ylim(low, low + (high - low) / (1 - share))


def _fitted(place: Callable[..., Legend], shown: Entries, room: float, title: str = "") -> float:
    """Places a legend with as many columns as fit; returns the inches that it takes."""
    handles, labels = shown
    if not labels:
        return 0.0
    room -= _EDGE
    labels = [wrapped(label, room - _HANDLE, SMALL) for label in labels]
    widths = [max(text_width(line, SMALL) for line in label.splitlines()) for label in labels]
    most = next(n for n in range(len(labels), 0, -1) if n == 1 or _width(widths, n) <= room)
    columns = math.ceil(len(labels) / math.ceil(len(labels) / most))  # of about the same length
    legend = place(handles, labels, ncols=columns, title=title or None)
    return float(legend.get_window_extent().height / DPI) + _GAP


def _width(texts: Sequence[float], columns: int) -> float:
    """The inches that texts of some widths take in columns, which are filled one by one."""
    longest = [max(column) for column in np.array_split(np.array(texts), columns)]
    return float(sum(longest)) + columns * _HANDLE + (columns - 1) * _BETWEEN

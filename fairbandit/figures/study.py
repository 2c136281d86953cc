"""The figure of a study: its objectives by trial, and by the value of each parameter."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.figures.style import WIDTH, applied

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS = 4  # panels in a row
_HEIGHT = 1.9  # inches of a row
_BEST = "#d55e00"


@dataclass(frozen=True)
class Trial:
    """A trial that is complete.

    Attributes:
        number: its number in the study, from 0.
        values: the objectives.
        parameters: the values tried: numbers, texts or booleans, by parameter.
    """

    number: int
    values: tuple[float, ...]
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Trials:
    """The complete trials of a study.

    Attributes:
        objectives: whether lower is better, by objective.
        trials: in the order of their numbers, at least one.
        best: the numbers of the best trials: one, or the Pareto front of several objectives.
        logarithmic: the parameters that were searched on a log scale.
    """

    objectives: Mapping[str, bool]
    trials: Sequence[Trial]
    best: Collection[int]
    logarithmic: Collection[str] = ()

    @property
    def parameters(self) -> list[str]:
        """The names of all parameters, in the order of their first appearance."""
        return list(dict.fromkeys(name for trial in self.trials for name in trial.parameters))


def compose_study(study: Trials) -> Figure:
    """Draws a study; no global state of matplotlib knows of the result.

    Each objective has a row: its value by trial with the best so far, and then by the value of
    each parameter. Two objectives also have a panel of one against the other.
    """
    from matplotlib.figure import Figure

    names: list[str | None] = [None, *study.parameters]  # None stands for the trial's number
    columns = min(_COLUMNS, len(names))
    chunks = [names[at : at + columns] for at in range(0, len(names), columns)]
    rows = len(chunks) * len(study.objectives) + (len(study.objectives) == 2)
    with applied():
        figure = Figure(figsize=(WIDTH, _HEIGHT * rows), layout="constrained")
        grid = figure.add_gridspec(rows, columns)
        places = [(index, chunk) for index in range(len(study.objectives)) for chunk in chunks]
        for row, (index, chunk) in enumerate(places):
            for column, name in enumerate(chunk):
                axes = figure.add_subplot(grid[row, column])
                _panel(axes, study, index, name)
                axes.set_ylabel("" if column else _words(list(study.objectives)[index]))
        if len(study.objectives) == 2:
            _against(figure.add_subplot(grid[-1, : max(1, columns // 2)]), study)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return figure


def _panel(axes: Axes, study: Trials, index: int, name: str | None) -> None:
    """Draws an objective by the trial's number, or by the value of a parameter."""
    from matplotlib.ticker import MaxNLocator

    trials = study.trials if name is None else [t for t in study.trials if name in t.parameters]
    values = [trial.values[index] for trial in trials]
    if name is None:
        _points(axes, study, trials, [trial.number for trial in trials], values)
        lower = list(study.objectives.values())[index]
        running = (np.minimum if lower else np.maximum).accumulate(values)
        axes.step(
            [trial.number for trial in trials],
            running,
            where="post",
            color="black",
            linewidth=0.9,
            label="best so far",
        )
        axes.set_xlabel("trial")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        return
    from matplotlib.ticker import FuncFormatter, NullFormatter

    _points(axes, study, trials, _placed(axes, [t.parameters[name] for t in trials]), values)
    if name in study.logarithmic:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(re.sub(r"^policy[./]", "", name))


def _against(axes: Axes, study: Trials) -> None:
    """Draws the second objective against the first."""
    x, y = zip(*(trial.values for trial in study.trials), strict=True)
    _points(axes, study, study.trials, x, y)
    first, second = study.objectives
    axes.set_xlabel(_words(first))
    axes.set_ylabel(_words(second))


def _points(
    axes: Axes, study: Trials, trials: Sequence[Trial], x: Sequence[float], y: Sequence[float]
) -> None:
    """Draws a point for each trial, the later the darker, with rings around the best."""
    numbers = [trial.number for trial in trials]
    last = max(trial.number for trial in study.trials)
    look: dict[str, Any] = {
        "cmap": "viridis_r",
        "vmin": -0.15 * last,
        "vmax": max(last, 1),
        "zorder": 3,
    }
    axes.scatter(x, y, c=numbers, s=12, linewidths=0, label="trial, the later the darker", **look)
    best = [(a, b) for a, b, number in zip(x, y, numbers, strict=True) if number in study.best]
    ring: dict[str, Any] = {
        "facecolors": "none",
        "edgecolors": _BEST,
        "linewidths": 1.2,
        "zorder": 4,
    }
    label = "best" if len(study.objectives) == 1 else "not dominated"
    across, along = np.array(best).reshape(-1, 2).T
    axes.scatter(across, along, s=45, label=label, **ring)


def _placed(axes: Axes, values: Sequence[Any]) -> Sequence[float]:
    """Returns where values stand on the axis, whose ticks name those that are not numbers."""
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
        return values
    names = sorted({str(value) for value in values})
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right", rotation_mode="anchor")
    axes.set_xlim(-0.5, len(names) - 0.5)
    return [names.index(str(value)) for value in values]


def _words(objective: str) -> str:
    return objective.replace("_", " ")

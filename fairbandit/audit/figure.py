"""The figure of an audit: the estimated probabilities with their bands, against 1/K."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.audit.parity import ParityResult
from fairbandit.figures.style import WIDTH, applied, group_line, group_name, looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_POINTS = 40
"""The largest number of rounds that are drawn as points with bars; more are drawn as bands."""

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def draw(results: Sequence[ParityResult]) -> Figure:
    """Draws a panel a run, with the band of each estimate, and 1/K dashed.

    Rounds are on the x-axis and a line is a group where each group has a place of its own. Where
    pools mix groups, the groups are on the x-axis.
    """
    from matplotlib.figure import Figure

    columns = min(2, len(results))
    lines = math.ceil(len(results) / columns)
    with applied():
        size = (WIDTH * (columns + 1) / 3, 0.5 + 1.6 * lines)
        figure = Figure(figsize=size, layout="constrained")
        for place, result in enumerate(results, 1):
            panel = figure.add_subplot(lines, columns, place)
            (_rounds if result.picks.own_places else _groups)(panel, result)
            label = result.picks.label
            panel.set_title(f"{looks([label])[label].name}\n{result.verdict}")
            target: dict[str, Any] = {"linestyle": (0, (4, 3)), "linewidth": 0.7, "label": "1/K"}
            panel.axhline(result.target, color="black", **target)
        pairs = (zip(*panel.get_legend_handles_labels(), strict=True) for panel in figure.axes)
        named = {label: handle for pair in pairs for handle, label in pair}
        title = f"{1 - results[0].level:.4g} bands, simultaneous in a panel; scales differ"
        style: dict[str, Any] = {"ncols": min(6, len(named)), "title": title}
        figure.legend(named.values(), named.keys(), loc="outside lower center", **style)
    return figure


def _rounds(panel: Axes, result: ParityResult) -> None:
    from matplotlib.ticker import MaxNLocator

    groups = result.picks.groups
    rounds = np.arange(1, len(result.rates) + 1)
    for group in range(len(groups)):
        look: dict[str, Any] = group_line(group, groups)
        rates, low, high = (part[:, group] for part in (result.rates, result.low, result.high))
        if len(rounds) <= MOST_POINTS:
            look |= {"linewidth": 0.6, "capsize": 0, "markersize": 2.2}
            beside = rounds + 0.6 * ((group + 0.5) / len(groups) - 0.5)
            bars, marker = (rates - low, high - rates), _MARKERS[group % len(_MARKERS)]
            panel.errorbar(beside, rates, yerr=bars, marker=marker, **look)
        else:
            panel.fill_between(rounds, low, high, color=look["color"], alpha=0.2, lw=0)
            panel.plot(rounds, rates, linewidth=0.8, **look)
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set(xlabel="round", ylabel="P(group is picked)")


def _groups(panel: Axes, result: ParityResult) -> None:
    names = [group_name(name).replace(" ", "\n") for name in result.picks.groups]
    (rates,), (low,), (high,) = result.rates, result.low, result.high
    panel.errorbar(range(len(names)), rates, yerr=(rates - low, high - rates), fmt="o")
    panel.set_xticks(range(len(names)), names)
    panel.set(ylabel="selected ÷ received", ylim=(0, None), xlim=(-0.5, len(names) - 0.5))

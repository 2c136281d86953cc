"""Figures of an audit: the estimated probabilities with their bands, against 1/K."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fairbandit.audit.parity import ParityResult
from fairbandit.figures.style import WIDTH, applied, group_line, group_name, looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_POINTS = 40
"""The largest number of rounds that are drawn as points with bars; more are drawn as bands."""

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def draw(results: Sequence[ParityResult]) -> dict[str, Figure]:
    """Draws the figures: `parity` of rounds, and `parity_groups` of groups mixed at random.

    Returns:
        `parity` if any run has a place for each group: a panel a run, a line a group, with its
        band, 1/K dashed. `parity_groups` if any has not: a panel an environment, the groups side
        by side, a marker a run.
    """
    own = [result for result in results if result.picks.own_places]
    mixed = [result for result in results if not result.picks.own_places]
    with applied():
        drawn = {"parity": _by_round(own)} if own else {}
        return drawn | ({"parity_groups": _by_group(mixed)} if mixed else {})


def _by_round(results: Sequence[ParityResult]) -> Figure:
    from matplotlib.figure import Figure

    columns = min(2, len(results))
    lines = math.ceil(len(results) / columns)
    size = (WIDTH * (columns + 1) / 3, 0.5 + 1.6 * lines)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False)
    for panel, result in zip(panels.flat, results, strict=False):
        _round_panel(panel, result)
    for panel in panels.flat[len(results) :]:
        panel.set_axis_off()
    for panel in panels[:, 0]:
        panel.set_ylabel("P(group is picked)")
    most = max(range(len(results)), key=lambda index: len(results[index].picks.groups))
    handles, labels = panels.flat[most].get_legend_handles_labels()
    title = f"{1 - results[0].level:.4g} bands, simultaneous in a panel; scales differ"
    style: dict[str, Any] = {"ncols": min(6, len(labels)), "title": title, "title_fontsize": 6.5}
    figure.legend(handles, labels, loc="outside lower center", **style)
    return figure


def _round_panel(panel: Axes, result: ParityResult) -> None:
    """Draws each group's pick rate by round, with its confidence interval.

    Intervals are error bars for up to `MOST_POINTS` rounds, and a shaded band for more.
    """
    from matplotlib.ticker import MaxNLocator

    groups, label = result.picks.groups, result.picks.label
    rounds = torch.arange(1, len(result.rates) + 1, dtype=torch.float64)
    for group in range(len(groups)):
        ends = [part[:, group] for part in (result.rates, result.low, result.high)]
        look = group_line(group, groups)
        if len(rounds) <= MOST_POINTS:
            look |= {"linewidth": 0.6, "elinewidth": 0.6, "capsize": 0, "markersize": 2.2}
            beside = rounds + 0.6 * ((group + 0.5) / len(groups) - 0.5)
            _points(panel, beside, *ends, marker=_MARKERS[group % len(_MARKERS)], **look)
        else:
            at, rates, low, high = (values.tolist() for values in (rounds, *ends))
            panel.fill_between(at, low, high, color=look["color"], alpha=0.2, lw=0)
            panel.plot(at, rates, linewidth=0.8, **look)
    _target(panel, result)
    panel.set_title(f"{looks([label])[label].name}: {result.verdict}")
    panel.set_xlabel("round")
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))


def _by_group(results: Sequence[ParityResult]) -> Figure:
    from matplotlib.figure import Figure

    worlds: dict[tuple[str, tuple[str, ...]], list[ParityResult]] = {}
    for result in results:
        worlds.setdefault((result.picks.environment, result.picks.groups), []).append(result)
    figure = Figure(figsize=(WIDTH, 0.3 + 2.1 * len(worlds)), layout="constrained")
    panels = figure.subplots(len(worlds), 1, squeeze=False)
    for panel, ((name, groups), here) in zip(panels.flat, worlds.items(), strict=True):
        _group_panel(panel, here, groups)
        panel.set_title(name)
    return figure


def _group_panel(panel: Axes, results: Sequence[ParityResult], groups: Sequence[str]) -> None:
    """One environment: the runs' rates side by side at each group."""
    styles = looks(result.picks.label for result in results)
    for place, result in enumerate(results):
        look = styles[result.picks.label]
        shift = 0.7 * ((place + 0.5) / len(results) - 0.5)
        beside = torch.arange(len(groups), dtype=torch.float64) + shift
        style: dict[str, Any] = {"color": look.colour, "marker": look.marker, "linestyle": "none"}
        ends = (part[0] for part in (result.rates, result.low, result.high))
        label = f"{look.name}\n{result.verdict}"
        _points(panel, beside, *ends, elinewidth=0.8, label=label, **style)
    _target(panel, results[0])
    panel.set_xticks(range(len(groups)), [group_name(name).replace(" ", "\n") for name in groups])
    panel.set_ylabel("selected ÷ received")
    panel.set_ylim(bottom=0)
    title = f"{1 - results[0].level:.4g} bands, simultaneous"
    panel.legend(loc="center left", bbox_to_anchor=(1, 0.5), title=title, title_fontsize=6.5)


def _points(
    panel: Axes, at: Tensor, rates: Tensor, low: Tensor, high: Tensor, **style: Any
) -> None:
    """Draws estimates as points, with bars from the lower to the upper ends of their bands."""
    bars = [(rates - low).tolist(), (high - rates).tolist()]
    panel.errorbar(at.tolist(), rates.tolist(), yerr=bars, **style)


def _target(panel: Axes, result: ParityResult) -> None:
    panel.axhline(result.target, color="black", linestyle=(0, (4, 3)), linewidth=0.7, label="1/K")

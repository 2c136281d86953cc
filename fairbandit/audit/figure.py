"""The audit as a figure: estimated probabilities with their bands against 1/K."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from fairbandit.audit.parity import ParityResult
from fairbandit.figures.style import WIDTH, applied, group_look, group_name, looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_POINTS = 40
"""Up to so many rounds are drawn as points with bars, more as lines with bands."""

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def draw(results: Sequence[ParityResult]) -> dict[str, Figure]:
    """The figures, by name: `parity` of rounds, `parity_groups` of groups mixed at random.

    Args:
        results: what was found of some runs.

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
    _legend(figure, results, panels.flat[most])
    return figure


def _round_panel(panel: Axes, result: ParityResult) -> None:
    """One run: an estimate for each round and group, with bars or, of many rounds, a band."""
    from matplotlib.ticker import MaxNLocator

    groups = result.picks.groups
    rounds = torch.arange(1, len(result.rates) + 1, dtype=torch.float64)
    for group, name in enumerate(groups):
        rates, low, high = (part[:, group] for part in (result.rates, result.low, result.high))
        colour, dashes = group_look(group, len(groups))
        look: dict[str, Any] = {"color": colour, "linestyle": dashes, "label": group_name(name)}
        if len(rounds) <= MOST_POINTS:
            beside = rounds + 0.6 * ((group + 0.5) / len(groups) - 0.5)
            panel.errorbar(
                beside.tolist(),
                rates.tolist(),
                yerr=[(rates - low).tolist(), (high - rates).tolist()],
                marker=_MARKERS[group % len(_MARKERS)],
                markersize=2.2,
                linewidth=0.6,
                elinewidth=0.6,
                capsize=0,
                **look,
            )
        else:
            at = rounds.tolist()
            panel.fill_between(at, low.tolist(), high.tolist(), color=colour, alpha=0.2, lw=0)
            panel.plot(at, rates.tolist(), linewidth=0.8, **look)
    _target(panel, result)
    panel.set_title(f"{_run(result)}: {result.verdict}")
    panel.set_xlabel("round")
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))


def _by_group(results: Sequence[ParityResult]) -> Figure:
    from matplotlib.figure import Figure

    worlds = list(dict.fromkeys((f.picks.environment, f.picks.groups) for f in results))
    figure = Figure(figsize=(WIDTH, 0.3 + 2.1 * len(worlds)), layout="constrained")
    panels = figure.subplots(len(worlds), 1, squeeze=False)
    for panel, world in zip(panels.flat, worlds, strict=True):
        here = [f for f in results if (f.picks.environment, f.picks.groups) == world]
        _group_panel(panel, here)
        panel.set_title(world[0])
    return figure


def _group_panel(panel: Axes, results: Sequence[ParityResult]) -> None:
    """One environment: the runs' rates side by side at each group."""
    names = results[0].picks.groups
    looked = looks([result.picks.label for result in results])
    for place, result in enumerate(results):
        look = looked[result.picks.label]
        shift = 0.7 * ((place + 0.5) / len(results) - 0.5)
        rates, low, high = (part[0] for part in (result.rates, result.low, result.high))
        panel.errorbar(
            [group + shift for group in range(len(names))],
            rates.tolist(),
            yerr=[(rates - low).tolist(), (high - rates).tolist()],
            color=look.colour,
            marker=look.marker,
            linestyle="none",
            elinewidth=0.8,
            label=f"{look.name}\n{result.verdict}",
        )
    _target(panel, results[0])
    panel.set_xticks(range(len(names)), [group_name(name).replace(" ", "\n") for name in names])
    panel.set_ylabel("selected ÷ received")
    panel.set_ylim(bottom=0)
    title = f"{1 - results[0].level:.4g} bands, simultaneous"
    panel.legend(loc="center left", bbox_to_anchor=(1, 0.5), title=title, title_fontsize=6.5)


def _run(result: ParityResult) -> str:
    label = result.picks.label
    return looks([label])[label].name


def _target(panel: Axes, result: ParityResult) -> None:
    panel.axhline(result.target, color="black", linestyle=(0, (4, 3)), linewidth=0.7, label="1/K")


def _legend(figure: Figure, results: Sequence[ParityResult], panel: Axes) -> None:
    """Below all panels, whose scales differ."""
    handles, labels = panel.get_legend_handles_labels()
    title = f"{1 - results[0].level:.4g} bands, simultaneous in a panel; scales differ"
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=min(6, len(labels)),
        title=title,
        title_fontsize=6.5,
    )

"""Audits saved runs, and writes a CSV file and a figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from rich.table import Table

from fairbandit.audit.parity import LEVEL, ParityResult, examine
from fairbandit.audit.picks import read_picks
from fairbandit.figures.draw import save
from fairbandit.figures.style import WIDTH, applied, group_line, looks
from fairbandit.results.table import write
from fairbandit.run.table import make_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FILES = ("parity.csv", "parity.png", "parity.pdf")
"""What `report` writes."""

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def report(folder: Path, *others: Path, out: Path | None = None, level: float = LEVEL) -> Table:
    """Audits every finished run in some folders, from its saved rows, and writes `FILES`.

    parity.csv has a row for each run, round (empty where rounds are pooled) and group, with the
    p-value of the round, the same adjusted by Holm's method, and the verdict of the run.

    Args:
        folder, others: where runs are, at any depth.
        out: where the files go; the first folder by default.
        level: the family-wise level of each run.

    Returns:
        A table for the screen, with a row for each run: the estimate farthest from 1/K, its
        interval, and the verdict.

    Raises:
        FairbanditError: no run, rows that are missing, or a folder that cannot be written to.
    """
    results = [examine(picks, level) for picks in read_picks([folder, *others])]
    place = folder if out is None else out
    write(pa.concat_tables(map(_rows, results)), place / "parity.csv")
    save(draw(results), place, "parity")
    return _overview(results)


def _rows(result: ParityResult) -> pa.Table:
    picks, own = result.picks, result.picks.own_places
    n, g = result.rates.shape
    known = {"rate": result.rates, "low": result.low, "high": result.high}
    known |= {"p_value": result.p.repeat(g), "p_adjusted": result.adjusted.repeat(g)}
    columns = {
        "run": [picks.label] * n * g,
        "environment": [picks.environment] * n * g,
        "round": pa.array(np.repeat(range(1, n + 1), g) if own else [None] * g, pa.int64()),
        "group": list(picks.groups) * n,
        "selected": (picks.counts if own else picks.counts.sum(0)).ravel(),
        "received": np.tile(picks.received / n, n).astype(np.int64),
        "target": [result.target] * n * g,
        **{name: pa.array(values.ravel(), from_pandas=True) for name, values in known.items()},
        "verdict": [result.verdict] * n * g,
    }
    return pa.table(columns)


def _overview(results: Sequence[ParityResult]) -> Table:
    headers = ("run", "rounds", "1/K", "farthest estimate", "band", "smallest p", "verdict")
    return make_table(
        headers,
        map(_line, results),
        right=headers[1:-1],
        title=f"Demographic parity, family-wise level {results[0].level:g} a run",
        caption="binomial tests against 1/K, by Bonferroni's method over groups and Holm's over "
        "rounds; bands by Clopper and Pearson's",
        caption_justify="left",
    )


def _line(result: ParityResult) -> list[str]:
    picks, least = result.picks, result.adjusted.min()
    off = np.nan_to_num(np.abs(result.rates - result.target))
    at = index, group = np.unravel_index(off.argmax(), off.shape)
    when = f", round {index + 1}" if picks.own_places else ""
    return [
        picks.label,
        f"{len(picks.counts):,} × {picks.replicas:,}",
        f"{result.target:.4f}",
        f"{result.rates[at]:.4f} (group {picks.groups[group]}{when})",
        "–" if np.isnan(result.low[at]) else f"{result.low[at]:.4f} to {result.high[at]:.4f}",
        "–" if np.isnan(least) else f"{least:.3g}",
        result.verdict,
    ]


def draw(results: Sequence[ParityResult]) -> Figure:
    """Draws a panel a run: each group's estimates with their bands, by round, and 1/K dashed."""
    from matplotlib.figure import Figure

    columns = min(2, len(results))
    lines = math.ceil(len(results) / columns)
    with applied():
        size = (WIDTH * (columns + 1) / 3, 0.5 + 1.6 * lines)
        figure = Figure(figsize=size, layout="constrained")
        for place, result in enumerate(results, 1):
            _panel(figure.add_subplot(lines, columns, place), result)
        pairs = (zip(*panel.get_legend_handles_labels(), strict=True) for panel in figure.axes)
        named = {label: handle for pair in pairs for handle, label in pair}
        title = f"{1 - results[0].level:.4g} bands, simultaneous in a panel; scales differ"
        style: dict[str, Any] = {"ncols": min(6, len(named)), "title": title}
        figure.legend(named.values(), named.keys(), loc="outside lower center", **style)
    return figure


def _panel(panel: Axes, result: ParityResult) -> None:
    from matplotlib.ticker import MaxNLocator, NullLocator

    picks, rounds = result.picks, np.arange(1, len(result.rates) + 1)
    for group in range(len(picks.groups)):
        look: dict[str, Any] = group_line(group, picks.groups)
        look |= {"linewidth": 0.6, "marker": _MARKERS[group % len(_MARKERS)], "markersize": 2.2}
        rates, low, high = (part[:, group] for part in (result.rates, result.low, result.high))
        beside = rounds + 0.6 * ((group + 0.5) / len(picks.groups) - 0.5)
        panel.errorbar(beside, rates, yerr=(rates - low, high - rates), capsize=0, **look)
    panel.axhline(result.target, color="black", linestyle="--", linewidth=0.7, label="1/K")
    panel.set_title(f"{looks([picks.label])[picks.label].name}\n{result.verdict}")
    panel.set_ylabel("P(group is picked)" if picks.own_places else "selected ÷ received")
    panel.set_xlabel("round" if picks.own_places else "all rounds")
    panel.xaxis.set_major_locator(MaxNLocator(integer=True) if picks.own_places else NullLocator())

"""Reads and audits saved runs, and writes a CSV file and a figure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from rich.table import Table

from fairbandit import registry
from fairbandit.audit.parity import LEVEL, Picks, examine
from fairbandit.errors import FairbanditError
from fairbandit.figures.draw import save
from fairbandit.figures.layout import legend
from fairbandit.figures.style import WIDTH, applied, group_line, policy_name
from fairbandit.results import read_scenes
from fairbandit.results.table import write
from fairbandit.run.table import make_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FILES = ("parity.csv", "parity.png", "parity.pdf")
"""What `report` writes."""

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def read_picks(folders: Sequence[Path]) -> list[Picks]:
    """Reads the decisions of every finished run below some folders, by environment.

    Where two environments have a run of one label, the label names the environment too.

    Raises:
        FairbanditError: a folder does not exist, there is no run, or rows are missing.
    """
    runs = [(scene.name, run) for scene in read_scenes(folders) for run in scene.runs]
    often = Counter(run.label for _, run in runs)
    picks = []
    for environment, run in runs:
        received, spread = run.by_group("received")
        one = Picks(
            label=run.label if often[run.label] == 1 else f"{run.label}, {environment}",
            environment=environment,
            groups=run.groups,
            counts=run.picks(),
            received=(received * run.replicas).round(),
            # one candidate of each group in every pool: the paper's first setting
            own_places=bool((received == run.rounds).all()) and not bool((spread > 0).any()),
            reads_past=_reads_past(run.runs[0].summary["config"]["policy"]),
        )
        picks.append(one)
    return picks


def _reads_past(policy: Mapping[str, Any]) -> bool:
    parts = {kind: policy.get(kind) for kind in registry.PART_KINDS}
    named = {k: p.get("name") if isinstance(p, Mapping) else p for k, p in parts.items()}
    try:
        return any(registry.lookup(kind, str(name)).reads_past() for kind, name in named.items())
    except FairbanditError:  # a plugin that is not loaded
        return True


def report(folder: Path, *others: Path, out: Path | None = None, level: float = LEVEL) -> Table:
    """Audits every finished run in some folders, from its saved rows, and writes `FILES`.

    parity.csv has the rows of `examine` of every run.

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
    import pandas as pd

    picks = read_picks([folder, *others])
    results = [examine(one, level) for one in picks]
    place = folder if out is None else out
    write(pa.Table.from_pandas(pd.concat(results), preserve_index=False), place / "parity.csv")
    save(draw(results, level), place, "parity")
    headers = ("run", "rounds", "1/K", "farthest estimate", "band", "smallest p", "verdict")
    return make_table(
        headers,
        map(_line, picks, results),
        right=headers[1:-1],
        title=f"Demographic parity, family-wise level {level:g} a run",
        caption="binomial tests against 1/K, by Bonferroni's method over groups and Holm's over "
        "rounds; bands by Clopper and Pearson's",
        caption_justify="left",
    )


def _line(picks: Picks, result: pd.DataFrame) -> list[str]:
    far = result.loc[(result["rate"] - result["target"]).abs().idxmax()]
    when = f", round {far['round']}" if picks.own_places else ""
    least = result["p_adjusted"].min()
    return [
        picks.label,
        f"{len(picks.counts):,} × {picks.replicas:,}",
        f"{far['target']:.4f}",
        f"{far['rate']:.4f} (group {far['group']}{when})",
        "–" if math.isnan(far["low"]) else f"{far['low']:.4f} to {far['high']:.4f}",
        "–" if math.isnan(least) else f"{least:.3g}",
        far["verdict"],
    ]


def draw(results: Sequence[pd.DataFrame], level: float = LEVEL) -> Figure:
    """Draws a panel a run: each group's estimates with their bands, by round, and 1/K dashed."""
    columns = min(2, len(results))
    lines = math.ceil(len(results) / columns)
    with applied():
        from matplotlib.figure import Figure

        size = (WIDTH * (columns + 1) / 3, 0.5 + 1.6 * lines)
        figure = Figure(figsize=size, layout="constrained")
        for place, result in enumerate(results, 1):
            _panel(figure.add_subplot(lines, columns, place), result)
        title = f"{1 - level:.4g} bands, simultaneous in a panel; scales differ"
        legend(figure, figure.axes, "lower", title)
    return figure


def _panel(panel: Axes, result: pd.DataFrame) -> None:
    first, groups = result.iloc[0], list(result["group"].unique())
    for code, group in enumerate(groups):
        look: dict[str, Any] = group_line(code, groups)
        look |= {"linewidth": 0.6, "marker": _MARKERS[code % len(_MARKERS)], "markersize": 2.2}
        own = result[result["group"] == group]
        rate, low, high = (own[column].to_numpy() for column in ("rate", "low", "high"))
        beside = np.arange(1, len(own) + 1) + 0.6 * ((code + 0.5) / len(groups) - 0.5)
        panel.errorbar(beside, rate, yerr=(rate - low, high - rate), capsize=0, **look)
    panel.axhline(first["target"], color="black", linestyle="--", linewidth=0.7, label="1/K")
    panel.set_title(f"{policy_name(first['run'])}\n{first['verdict']}")
    if result["round"].isna().all():
        panel.set(xlabel="all rounds", ylabel="selected ÷ received", xticks=[])
    else:
        panel.set(xlabel="round", ylabel="P(group is picked)")
        panel.locator_params(axis="x", integer=True)

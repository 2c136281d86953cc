"""The tables of the comparison, in Markdown: they depend on the seeds only, but for the times."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np
from scipy.stats import t as student

from fairbandit.version import VERSION
from tests.benchmarks.players import Array
from tests.studies.comparison.learners import LEARNERS

REGRETS = ("standard", "fair")

PACKAGES = ("vowpalwabbit", "coba", "bayesianbandits", "torch", "numpy")


@dataclass(frozen=True)
class Row:
    """What a learner's runs in a world came to, by seed; or why there are none."""

    world: str
    learner: str
    regrets: Mapping[str, Array]
    milliseconds: float = 0.0  # a decision, with learning from its reward
    note: str = ""

    @property
    def ours(self) -> bool:
        return LEARNERS[self.learner].package == "fairbandit"


def page(rows: Sequence[Row], tuned: Mapping[str, Any], rounds: int, seeds: Sequence[int]) -> str:
    """The whole report."""
    worlds = list(dict.fromkeys(row.world for row in rows))
    counted = [row for row in rows if not row.note]
    parts = [
        f"Cumulative regret after {rounds:,} rounds: the mean over {len(seeds)} seeds and its 95 % "
        f"interval. {_versions()}.",
        "### Who wins where",
        *_winners(worlds, counted),
    ]
    for world in worlds:
        some = [row for row in counted if row.world == world]
        notes = [f"{row.learner}: {row.note}." for row in rows if row.world == world and row.note]
        parts += [f"### {world}", *notes, *_world(some)]
    return "\n\n".join([*parts, "### What tuning changed", *_tuning(tuned)]) + "\n"


def _versions() -> str:
    installed = {found.metadata["name"]: found.version for found in metadata.distributions()}
    named = ", ".join(f"{name} {installed[name]}" for name in PACKAGES if name in installed)
    system = f"Python {platform.python_version()}, {os.cpu_count()} cores"
    return f"Versions: fairbandit {VERSION}, {named}; {system}"


def _winners(worlds: Iterable[str], rows: Sequence[Row]) -> list[str]:
    """The best of ours and of the others, and the paired interval of their difference."""
    lines = []
    for world in worlds:
        for regret in REGRETS:
            here = [row for row in rows if row.world == world]
            sides = ([row for row in here if row.ours is ours] for ours in (True, False))
            own, other = (_best(side, regret) for side in sides)
            if own is None or other is None:
                continue
            gap = other.regrets[regret] - own.regrets[regret]
            wins = "a tie" if _may_be_0(gap) else "fairbandit" if gap.mean() > 0 else other.learner
            cells = [f"{row.learner}: {interval(row.regrets[regret])}" for row in (own, other)]
            share = f"{(gap > 0).sum()} of {len(gap)}"
            lines.append([world, regret, *cells, interval(gap), share, f"**{wins}**"])
    head = ["world", "regret", "best of fairbandit", "best of the others"]
    head += ["others − fairbandit", "seeds in which fairbandit is ahead", "who wins by the mean"]
    return [table(head, lines)] if lines else []


def _world(rows: Sequence[Row]) -> list[str]:
    best = {regret: _best(rows, regret) for regret in REGRETS}
    lines = []
    for row in rows:
        cells = []
        for regret in REGRETS:
            least, text = best[regret], interval(row.regrets[regret])
            assert least is not None
            close = row is least or _may_be_0(row.regrets[regret] - least.regrets[regret])
            cells.append(f"**{text}**" if close else text)
        lines.append([row.learner, *cells, f"{row.milliseconds:.2f}"])
    head = ["learner", "standard regret", "fair regret", "ms a decision"]
    return [table(head, lines)] if lines else []


def _tuning(tuned: Mapping[str, Any]) -> list[str]:
    """Regret on the tuning seeds, with the defaults and with the chosen settings."""
    lines = []
    for name in (name for name, learner in LEARNERS.items() if learner.space):
        found = [tuned[world]["learners"].get(name) for world in tuned]
        cells = [
            f"{number(x['regret_of_defaults'])} → {number(x['regret'])}" if x else "–"
            for x in found
        ]
        lines.append([name, *cells])
    return [table(["learner", *tuned], lines)]


def _best(rows: Sequence[Row], regret: str) -> Row | None:
    return min(rows, key=lambda row: row.regrets[regret].mean(), default=None)


def _half(values: Array) -> float:
    """Half of the 95 % interval of a mean, by Student's t distribution."""
    n = len(values)
    return float(student.ppf(0.975, n - 1) * values.std(ddof=1) / np.sqrt(n))


def _may_be_0(gap: Array) -> bool:
    """Whether the interval of a mean difference over the same seeds contains 0."""
    return bool(abs(gap.mean()) <= _half(gap))


def interval(values: Array) -> str:
    """The mean and half of its interval, with the same decimals."""
    mean = float(values.mean())
    decimals = 0 if abs(mean) >= 100 else 1
    return f"{mean:,.{decimals}f} ± {_half(values):,.{decimals}f}".replace("-", "−")


def number(value: float) -> str:
    """A regret without an interval."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)

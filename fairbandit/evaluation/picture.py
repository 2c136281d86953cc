"""A picture of an evaluation: policies by reward and by fair regret."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairbandit.evaluation.whole import preferred
from fairbandit.figures.draw import save
from fairbandit.figures.style import WIDTH, applied, looks

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def draw(table: pd.DataFrame) -> Figure:
    """Draws each policy at its reward (across) and fair regret (up), with both intervals.

    Args:
        table: what `evaluate` returned.
    """
    from matplotlib.figure import Figure

    rows = {(one.policy, one.measure, one.estimator): one for one in table.itertuples()}
    shown = list(dict.fromkeys(table["policy"]))
    used = preferred(table, "reward")
    with applied():
        figure = Figure(figsize=(WIDTH * 0.6, WIDTH * 0.45), layout="constrained")
        panel = figure.add_subplot()
        for name, look in looks(shown).items():
            x, y = rows[name, "reward", used], rows[name, "fair_regret", "direct"]
            panel.errorbar(
                x.value, y.value, xerr=_arms(x), yerr=_arms(y), fmt=look.marker, **look.line
            )
        panel.set_xlabel(f"mean reward ({used}) →")
        panel.set_ylabel("← mean fair regret (direct)")
        figure.legend(loc="outside lower center", ncols=min(4, len(shown)))
    return figure


def _arms(row: Any) -> list[list[float]]:
    return [[row.value - row.low], [row.high - row.value]]


def write_picture(table: pd.DataFrame, folder: Path) -> tuple[Path, Path]:
    """Writes evaluation.png and evaluation.pdf."""
    return save(draw(table), folder, "evaluation")

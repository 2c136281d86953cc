"""The frontier between fairness and reward: one line over the weight of a trade-off."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairbandit.errors import FairbanditError
from fairbandit.figures.panels import PRICE, spread_of
from fairbandit.results import SavedRun, Scene

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def alpha(run: SavedRun) -> float | None:
    """Returns the weight α of a run whose rank is `tradeoff`, and None for other runs."""
    rank = run.summary["config"]["policy"]["rank"]
    return float(rank["alpha"]) if rank["name"] == "tradeoff" else None


def frontier(axes: Axes, scene: Scene) -> None:
    """Draws fair against standard pseudo-regret at T, joined in the order of α.

    Raises:
        FairbanditError: fewer than two runs of the rank `tradeoff`.
    """
    found = ((alpha(run), run) for run in scene.runs)
    weighed = sorted(((a, run) for a, run in found if a is not None), key=lambda pair: pair[0])
    if len(weighed) < 2:
        raise FairbanditError(
            "the frontier joins runs of policy/rank=tradeoff at several policy.rank.alpha; "
            f"found {len(weighed)} of them"
        )
    (x, dx), (y, dy) = (
        np.array([spread_of(run, column) for _, run in weighed]).T for column in PRICE
    )
    axes.errorbar(
        x, y, xerr=np.nan_to_num(dx), yerr=np.nan_to_num(dy), fmt="o-", color="black",
        ecolor="0.7", markersize=3.5, linewidth=1.0, elinewidth=0.8,
        label=r"trade-off, by $\alpha$",
    )  # fmt: skip
    for (weight, _), at in zip(weighed, zip(x, y, strict=True), strict=True):
        axes.annotate(f"{weight:g}", at, xytext=(4, 3), textcoords="offset points", fontsize=6)
    horizons = {run.summary["rounds"] for _, run in weighed}
    last = f"T = {horizons.pop():,}" if len(horizons) == 1 else "T"
    axes.set_xlabel(f"standard pseudo-regret at {last}")
    axes.set_ylabel(f"fair pseudo-regret at {last}")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)

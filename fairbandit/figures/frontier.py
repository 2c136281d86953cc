"""The frontier between fairness and reward: one line over the weight of a trade-off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairbandit.errors import FairbanditError
from fairbandit.figures.data import Run, Scene

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def alpha(run: Run) -> float | None:
    """The weight α of a run whose rank is `tradeoff`; None of any other run."""
    rank = run.summary["config"]["policy"]["rank"]
    return float(rank["alpha"]) if rank["name"] == "tradeoff" else None


def frontier(axes: Axes, scene: Scene) -> None:
    """Fair against standard pseudo-regret at T, joined in the order of α.

    Raises:
        FairbanditError: fewer than two runs of the rank `tradeoff`.
    """
    weighed = sorted((a, run) for run in scene.runs if (a := alpha(run)) is not None)
    if len(weighed) < 2:
        raise FairbanditError(
            "the frontier joins runs of policy/rank=tradeoff at several policy.rank.alpha; "
            f"found {len(weighed)} of them"
        )
    points = [
        [run.summary[f"{kind}_pseudo_regret"] for kind in ("standard", "fair")]
        for _, run in weighed
    ]
    (x, dx), (y, dy) = (
        [[point[which][part] or 0.0 for point in points] for part in ("mean", "std")]
        for which in (0, 1)
    )
    axes.errorbar(
        x, y, xerr=dx, yerr=dy, fmt="o-", color="black", ecolor="0.7", markersize=3.5,
        linewidth=1.0, elinewidth=0.8, label=r"trade-off, by $\alpha$",
    )  # fmt: skip
    for (weight, _), at in zip(weighed, zip(x, y, strict=True), strict=True):
        axes.annotate(f"{weight:g}", at, xytext=(4, 3), textcoords="offset points", fontsize=6)
    horizons = {run.summary["rounds"] for _, run in weighed}
    last = f"T = {horizons.pop():,}" if len(horizons) == 1 else "T"
    axes.set_xlabel(f"standard pseudo-regret at {last}")
    axes.set_ylabel(f"fair pseudo-regret at {last}")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)

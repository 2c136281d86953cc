"""The picture of an evaluation: policies by reward and fair regret, and their groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairbandit.evaluation.choosing import of_groups, preferred
from fairbandit.policy.build import policy_label

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fairbandit.figures.style import Look

_BY_GROUP = {
    "selection": "selection rate",
    "reward": "mean reward of the picks",
    "fair_regret": "fair regret of the picks",
}


def draw_estimates(table: pd.DataFrame) -> Figure:
    """Draws the policies of a table at their rewards and fair regrets, and each by group.

    The first panel shows each policy at its reward (across) and fair regret (up); the others show
    the groups side by side. Lines are intervals; a value whose interval is infinite is left out.
    """
    from matplotlib.figure import Figure

    from fairbandit.figures.layout import legend
    from fairbandit.figures.style import WIDTH, applied, looks, write_numbers

    labels = dict[str, str]()
    for name in dict.fromkeys(table["policy"]):
        own, comma, replaced = name.partition(", ")  # as in "fair_greedy, rank=smoothed_cdf"
        labels[name] = policy_label(own) + comma + replaced
    drawn = [(labels[name], look, name) for name, look in looks(labels).items()]
    with applied():
        figure = Figure(figsize=(WIDTH, WIDTH * 0.75), layout="constrained")
        first, *others = figure.subplots(2, 2).flat
        _draw_whole(first, table, drawn)
        for panel, (measure, label) in zip(others, _BY_GROUP.items(), strict=True):
            _draw_groups(panel, table, measure, label, drawn)
        for panel in figure.axes:
            write_numbers(panel, 0.4 * WIDTH)
        legend(figure, [first], "lower")
    return figure


def _draw_whole(panel: Axes, table: pd.DataFrame, drawn: Sequence[tuple[str, Look, str]]) -> None:
    rows = [preferred(table, measure) for measure in ("reward", "fair_regret")]
    for label, look, name in drawn:
        x, y = (row.loc[name] for row in rows)
        arms = [[[end.value - end.low], [end.high - end.value]] for end in (x, y)]
        style = {**look.style, "label": label}
        panel.errorbar(x.value, y.value, arms[1], arms[0], look.marker, **style)
    panel.set_xlabel(f"mean reward ({rows[0]['estimator'].iloc[0]}) →")
    panel.set_ylabel("← mean fair regret (direct)")


def _draw_groups(
    panel: Axes,
    table: pd.DataFrame,
    measure: str,
    label: str,
    drawn: Sequence[tuple[str, Look, str]],
) -> None:
    from fairbandit.figures.panels import name_groups

    rows = of_groups(table, measure)
    groups = list(dict.fromkeys(of_groups(table, "share")["group"]))
    for number, (_, look, name) in enumerate(drawn):
        own = rows[(rows["policy"] == name) & (rows["high"] - rows["low"]).lt(math.inf)]
        own = own.set_index("group")
        places = [
            groups.index(group) + (number + 0.5) / len(drawn) * 0.7 - 0.35 for group in own.index
        ]
        arms = [own["value"] - own["low"], own["high"] - own["value"]]
        style = {**look.style, "linestyle": "none", "marker": look.marker}
        panel.errorbar(places, own["value"], arms, **style)
    name_groups(panel, groups)
    panel.set_ylabel(f"{label} ({', '.join(rows['estimator'].unique())})")

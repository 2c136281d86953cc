"""The picture of an evaluation: policies by reward and fair regret, and their groups."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fairbandit.evaluation.choosing import of_groups, preferred
from fairbandit.policy.build import policy_label

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

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
    from fairbandit.figures.panels import name_groups
    from fairbandit.figures.style import WIDTH, applied, looks, write_numbers

    labels = dict[str, str]()
    for name in dict.fromkeys(table["policy"]):
        own, comma, replaced = name.partition(", ")  # as in "fair_greedy, rank=smoothed_cdf"
        labels[name] = policy_label(own) + comma + replaced
    styles = looks(labels)
    groups = list(dict.fromkeys(of_groups(table, "share")["group"]))
    reward, regret = (preferred(table, measure) for measure in ("reward", "fair_regret"))
    with applied():
        figure = Figure(figsize=(WIDTH, WIDTH * 0.75), layout="constrained")
        first, *others = figure.subplots(2, 2).flat
        for name, look in styles.items():
            ends = [rows.loc[name] for rows in (reward, regret)]
            x, y = ([[end.value - end.low], [end.high - end.value]] for end in ends)
            style = {**look.style, "label": labels[name]}
            first.errorbar(ends[0].value, ends[1].value, y, x, look.marker, **style)
        first.set_xlabel(f"mean reward ({reward['estimator'].iloc[0]}) →")
        first.set_ylabel("← mean fair regret (direct)")
        for panel, (measure, label) in zip(others, _BY_GROUP.items(), strict=True):
            rows = of_groups(table, measure)
            for number, (name, look) in enumerate(styles.items()):
                own = rows[(rows["policy"] == name) & (rows["high"] - rows["low"]).lt(math.inf)]
                shift = (number + 0.5) / len(styles) * 0.7 - 0.35
                places = [groups.index(group) + shift for group in own["group"]]
                arms = [own["value"] - own["low"], own["high"] - own["value"]]
                style = {**look.style, "linestyle": "none", "marker": look.marker}
                panel.errorbar(places, own["value"], arms, **style)
            name_groups(panel, groups)
            panel.set_ylabel(f"{label} ({', '.join(rows['estimator'].unique())})")
        for panel in figure.axes:
            write_numbers(panel, 0.4 * WIDTH)
        legend(figure, [first], "lower")
    return figure

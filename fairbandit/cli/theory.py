"""`fairbandit theory`: the paper's constants and bounds, computed for a problem, as tables."""

from __future__ import annotations

from typing import Any

import torch

from fairbandit import registry
from fairbandit import theory as paper
from fairbandit.cli.parsers import tool
from fairbandit.errors import brief
from fairbandit.runs.sheets import console, make_table


@tool()
def theory(
    *,
    environment: str | dict[str, Any] = "simulation",
    rounds: float | None = None,
    delta: float = 0.05,
    regularization: float = 0.1,
    alpha: float = 0.5,
) -> None:
    """Computes the constants in the paper's theorem on Fair-Greedy, and its bound on fair regret.

    One step of the paper's proof is false, so the printed theorem and its repaired version are
    shown side by side, and below them the constant of this instance, computed by Monte Carlo. For
    two groups with one place each, the command also prints the cost of fairness in reward. It plays
    no policy, and all bounds are for one pick from each pool. Labels such as th:regret refer to the
    paper's source.

      environment=NAME             simulation, table, census_gender or census_ethnicity
      environment.KEY=VALUE        as for a run
      rounds=T                     default: the environment's own
      delta=0.05                   bounds hold with probability at least 1 - delta
      regularization=0.1           the ridge's λ
      alpha=0.5                    th:regret_2: the share of a group's expected candidates that the
                                   bound relies on

    examples:
      fairbandit theory environment=simulation rounds=1000000 delta=0.01
      fairbandit theory environment=simulation environment.groups=2 'environment.theta=[2,1,1]'
      fairbandit theory environment=census_gender environment.root=data 'environment.states=[VT]'
    """
    described = {"name": environment} if isinstance(environment, str) else environment
    world = registry.create("environment", {"name": "simulation", **described})
    torch.set_num_threads(1)
    table = paper.theory(
        world, rounds=rounds, delta=delta, regularization=regularization, alpha=alpha
    )
    errors = table["error"].map(lambda error: f" ± {error:.2g}" if error else "")
    table["text"] = table["value"].map(brief).str.replace("inf", "∞") + errors
    screen = console()
    for title, rows in table.groupby("table", sort=False):
        cells = rows.pivot_table("text", "quantity", "case", aggfunc="first", sort=False)
        right = [*cells]
        if rows["how"].any():
            cells["meaning; source"] = rows.set_index("quantity")["how"]
        lines = cells.reset_index().to_numpy()
        screen.print(make_table(["", *cells], lines, right=right, title=title), highlight=False)
    for note in table.attrs["notes"]:
        screen.print(note, highlight=False)

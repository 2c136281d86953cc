"""`fairbandit figures`: draws figures of saved runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from fairbandit.cli.messages import short
from fairbandit.cli.parsers import conditions, names_in, tool
from fairbandit.errors import check_known
from fairbandit.figures.draw import FIGURES, SUBFOLDER, Choice, draw
from fairbandit.figures.layout import Options
from fairbandit.files.files import within


@tool("FOLDER", several=True)
def figures(
    folders: Sequence[Path],
    *,
    out: str | None = None,
    only: str | list[str] | None = None,
    metrics: str | list[str] | None = None,
    by: str | None = None,
    policy: str | list[str] | None = None,
    where: dict[str, Any] | None = None,
    interval: Literal["quantiles", "std", "mean"] = "quantiles",
    width: float | None = None,
) -> None:
    """Draws figures of the finished runs below some folders, as PNG and PDF, without simulating.

    Runs in different environments have separate figures, and runs that differ only in their seeds
    are pooled. Without only and metrics, the command draws all figures for which the runs have
    data, except frontier and notions.

    figures:
      overview       reward densities and both regrets (the paper's Fig. 1)
      selection      percentage selected by group and both regrets (Fig. 2)
      distributions  reward densities and CDFs, and both regrets (Fig. 3)
      counts         reward densities, counts selected by group, and both regrets (Fig. 4)
      price          fair against standard regret at T: the price of fairness
      frontier       price over the weight of policy/rank=tradeoff, beside the other runs
      metrics        the metrics beside both regrets, over the rounds
      notions        a table of the runs by all metrics at T, coloured by rank

      out=DIR          where the files go; by default FOLDER/figures, or figures if several
      only=NAMES       figures to draw, separated by commas
      metrics=NAMES    columns in the figure metrics, which is then the only figure without only
      by=KEY           a panel for each value of this setting
      policy=NAMES     only runs of these policies
      where.KEY=VALUES only runs with one of these values; every where must hold
      interval=NAME    bands and bars: quantiles (10 to 90 %, the default), std, or mean (its 95 %
                       interval)
      width=INCHES     the width of each figure, such as 3.25 [6.75]

    examples:
      fairbandit figures outputs only=price out=paper/figures
      fairbandit figures outputs only=notions policy=fair_greedy,oful,uniform
      fairbandit figures outputs only=overview by=regularization width=5
      fairbandit figures outputs metrics=fair_regret where.regularization=0.1,1 where.rounds=5000
    """
    columns = names_in(metrics)
    options = Options(by, interval, width, columns)
    choice: Choice | None = dict.fromkeys(names_in(only) or ["metrics"] * bool(columns)) or None
    place = Path(out) if out else within(folders[0] if len(folders) == 1 else Path(), SUBFOLDER)
    print_files(draw(folders, place, choice, names_in(policy) or None, conditions(where), options))


def figures_asked(figures: Any) -> Choice:
    """Reads the key `figures`: a name, a mapping of names to policies, a list of them, or null."""
    choice: dict[str, list[str] | None] = {}
    for item in figures if isinstance(figures, list) else [figures] if figures else []:
        for name, policies in (item if isinstance(item, dict) else {item: None}).items():
            choice[name] = [policies] if isinstance(policies, str) else policies
    check_known("figure", choice, FIGURES)
    return choice


def print_files(files: Sequence[Path]) -> None:
    """Prints each file that was written, on its own line."""
    for file in files:
        print(short(file))

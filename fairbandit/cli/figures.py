"""`fairbandit figures`: draws figures of saved runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairbandit.cli.messages import short
from fairbandit.cli.parsers import conditions, folder_to_write, names_in, read_words
from fairbandit.errors import FairbanditError, check_known
from fairbandit.figures.draw import FIGURES, SUBFOLDER, Choice, Drawn, draw
from fairbandit.figures.layout import Options
from fairbandit.files.files import within

_HELP = """\
Draws figures of the finished runs below some folders, as PNG and PDF, without simulating. Runs in
different environments have separate figures, and runs that differ only in their seeds are pooled.
Bands and error bars reach from the 10 % to the 90 % quantile over all replicas.

figures:
""" + "\n".join(f"  {name:<15}{plan.help}" for name, plan in FIGURES.items())

_HELP += f"""

  out=DIR          where the files go; by default FOLDER/{SUBFOLDER}, or {SUBFOLDER} if several
  only=NAMES       figures to draw, separated by commas
  metrics=NAMES    columns in the figure metrics, which is then the only figure without only
  by=KEY           a panel for each value of this setting
  policy=NAMES     only runs of these policies
  where.KEY=VALUES only runs with one of these values; every where must hold
  interval=NAME    bands and bars: quantiles (10 to 90 %, the default), std, or mean (its 95 %
                   interval)
  size=WxH         width of each figure in inches, alone or with its height: 3.25, 6.75x2.5
  style=NAME       sizes of text and figure: page, column (of a page) or slides

Without only and metrics, every figure that the runs allow is drawn except frontier and notions.

examples:
  fairbandit figures outputs only=price out=paper/figures
  fairbandit figures outputs only=notions policy=fair_greedy,oful,uniform
  fairbandit figures outputs only=overview by=regularization size=6.75x9
  fairbandit figures outputs metrics=fair_regret where.regularization=0.1,1 where.rounds=5000"""

_KEYS = ("out", "only", "metrics", "by", "policy", "where", "interval", "size", "style")


def figures(words: Sequence[str]) -> None:
    """Draws figures and lists their files."""
    given = read_words("figures", _HELP, words, "FOLDER", several=True)
    folders, settings = given.paths, given.only(_KEYS)
    out = folder_to_write(str(settings.get("out", ""))) if "out" in settings else None
    out = out or within(folders[0] if len(folders) == 1 else Path(), SUBFOLDER)
    metrics = names_in(settings.get("metrics"))
    only = names_in(settings.get("only")) or ["metrics"] * bool(metrics)
    options = Options(
        settings.get("by"),
        settings.get("interval", "quantiles"),
        _size(settings.get("size")),
        settings.get("style", "page"),
        metrics,
    )
    choice: Choice | None = dict.fromkeys(only) or None
    policies = names_in(settings.get("policy")) or None
    where = conditions(settings.get("where", {}))
    print_files(draw(folders, out, choice, policies, where, options))


def figures_asked(asked: Any) -> Choice:
    """Reads the key `figures`: a name, a mapping of names to policies, a list of them, or null."""
    choice: dict[str, list[str] | None] = {}
    for item in asked if isinstance(asked, list) else [asked] if asked else []:
        for name, policies in (item if isinstance(item, dict) else {item: None}).items():
            choice[name] = [policies] if isinstance(policies, str) else policies
    check_known("figure", choice, FIGURES)
    return choice


def print_files(drawn: Sequence[Drawn]) -> None:
    """Prints each file that was written, on its own line."""
    for figure in drawn:
        for file in figure.files:
            print(short(file))


def _size(given: Any) -> tuple[float, float | None] | None:
    try:
        width, *height = [None] if given is None else map(float, str(given).split("x"))
    except ValueError:
        width, height = None, []
    if len(height) > 1 or (given is not None and width is None):
        raise FairbanditError(f"size: expected W or WxH in inches, as in 6.75x2.5, got {given}")
    return None if width is None else (width, height[0] if height else None)

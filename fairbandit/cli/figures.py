"""`fairbandit figures`: draws figures of saved runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairbandit.cli.messages import short
from fairbandit.cli.parsers import add_conditions, folder_to_write, split_names, tool_parser
from fairbandit.errors import check_known
from fairbandit.figures.draw import FIGURES, SUBFOLDER, Choice, Drawn, draw
from fairbandit.figures.layout import INTERVALS, Options
from fairbandit.figures.style import STYLES
from fairbandit.files.files import within

_HELP = """\
Draws figures of the finished runs below some folders, as PNG and PDF, without simulating. Runs in
different environments have separate figures, and runs that differ only in their seeds are pooled.
Bands and error bars reach from the 10 % to the 90 % quantile over all replicas.

figures:
""" + "\n".join(f"  {name:<15}{plan.help}" for name, plan in FIGURES.items())

_EXAMPLES = """\
examples:
  fairbandit figures outputs --only price --out paper/figures
  fairbandit figures outputs --only notions --policies fair_greedy,oful,uniform
  fairbandit figures outputs --only overview --by regularization --size 6.75x9
  fairbandit figures outputs --metric fair_regret --where regularization=0.1,1 --where rounds=5000

Without --only and --metric, every figure that the runs allow is drawn except frontier and
notions."""


def figures(words: Sequence[str]) -> None:
    """Draws figures and lists their files."""
    parser = tool_parser("figures", _HELP, _EXAMPLES, folders=True)
    add_conditions(parser)
    add = parser.add_argument
    text = f"where the files go; by default FOLDER/{SUBFOLDER}, or {SUBFOLDER} if several"
    add("--out", type=folder_to_write, metavar="DIR", help=text)
    text = f"figures to draw, separated by commas: {', '.join(FIGURES)}"
    add("--only", type=split_names, metavar="NAMES", help=text)
    text = "columns in the figure metrics, which is then the only figure unless --only is given"
    add("--metric", type=split_names, metavar="NAMES", help=text)
    add("--by", metavar="KEY", help="a panel for each value of this setting")
    text = "bands and bars: quantiles (10 to 90 %%, the default), std, or mean (its 95 %% interval)"
    add("--interval", choices=INTERVALS, default="quantiles", help=text)
    text = "width of each figure in inches, alone or with its height: 3.25, 6.75x2.5"
    add("--size", type=_size, metavar="WxH", help=text)
    text = "sizes of text and figure: for a page, for a column of it, or for slides"
    add("--style", choices=STYLES, default="page", help=text)
    given = parser.parse_args(words)
    alone = given.folders[0] if len(given.folders) == 1 else None
    out = given.out or within(Path() if alone is None else alone, SUBFOLDER)
    only = given.only or (["metrics"] if given.metric else None)
    choice: Choice | None = None if only is None else dict.fromkeys(only)
    options = Options(given.by, given.interval, given.size, given.style, given.metric or ())
    drawn = draw(given.folders, out, choice, given.policies, dict(given.where), options)
    print_files(drawn)


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


def _size(text: str) -> tuple[float, float | None]:
    width, *height = map(float, text.split("x"))
    if len(height) > 1:
        raise ValueError("expected W or WxH")
    return width, height[0] if height else None

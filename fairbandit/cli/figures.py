"""`fairbandit figures`: draws figures of saved runs."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from yaml import YAMLError, safe_load  # type: ignore[import-untyped]

from fairbandit.cli.messages import short
from fairbandit.cli.parsers import tool_parser
from fairbandit.errors import FairbanditError
from fairbandit.figures.compose import FIGURES
from fairbandit.figures.draw import (
    SUBFOLDER,
    Choice,
    Drawn,
    check_choice,
    draw,
    show_in_tensorboard,
)
from fairbandit.figures.facets import MOST_RUNS, Options
from fairbandit.run.table import console, make_table

_MOST_INCHES = 50
_SWEEP = "multirun.yaml"  # where Hydra records the config of a sweep

_HELP = f"""\
Draws figures of the finished runs below some folders, as PNG and PDF, without simulating. Runs in
different environments have separate figures; runs of one policy are labelled by the settings that
differ, and runs that differ in nothing but their seeds are pooled. Bands and error bars are one
standard deviation to either side of the mean, over the replicas of all seeds. More than {MOST_RUNS}
runs become panels of at most so many, which share a setting where that is possible.

figures:
""" + "\n".join(f"  {name:<15}{plan.help}" for name, plan in FIGURES.items())

_EXAMPLES = """\
examples:
  fairbandit figures outputs/sweeps/experiment-simulation
  fairbandit figures outputs --only price --out paper/figures
  fairbandit figures outputs --only notions --policies fair_greedy,oful,uniform
  fairbandit figures one_folder another_folder --policies fair_greedy,oful,uniform --interval
  fairbandit figures outputs --only overview --by regularization --size 6.75x9
  fairbandit figures outputs --metric fair_regret --where regularization=0.1,1 --where rounds=5000

Without --only, --policies and --metric, a sweep that asked for figures gets those again, and others
get all that their runs make (frontier, of runs of policy/rank=tradeoff, and notions are drawn only
when asked for)."""


_OPTIONS = {
    "out": f"where the files go; by default FOLDER/{SUBFOLDER}, or {SUBFOLDER} if several",
    "only": f"which, separated by commas: {', '.join(FIGURES)}",
    "where": "only runs with one of these values, separated by commas, of a setting; its key may be"
    " short, as in figures; of several --where all hold",
    "metric": "the metrics that the figure metrics shows, separated by commas: fair_regret,"
    " standard_regret, or a column that runs were asked for; it is then the only figure,"
    " unless --only names others",
    "interval": "bands and bars are 95 %% intervals of the mean, in place of the standard"
    " deviation",
}


def figures(words: Sequence[str]) -> None:
    """Draws figures and lists their files."""
    parser = tool_parser("figures", _HELP, _EXAMPLES, folders=True)
    texts, add = _OPTIONS, parser.add_argument
    add("--out", type=Path, metavar="DIR", help=texts["out"])
    add("--only", type=_names, metavar="NAMES", help=texts["only"])
    add("--policies", type=_names, metavar="NAMES", help="whose runs, separated by commas")
    add("--where", type=_condition, action="append", metavar="KEY=VALUES", help=texts["where"])
    add("--metric", type=_names, metavar="NAMES", help=texts["metric"])
    add("--by", metavar="KEY", help="a panel for each value of this setting")
    add("--interval", action="store_true", help=texts["interval"])
    add("--size", type=_size, metavar="WxH", help="of each figure in inches, as in 6.75x2.5")
    given = parser.parse_args(words)
    alone = given.folders[0] if len(given.folders) == 1 else None
    own = Path(SUBFOLDER) if alone is None else alone / SUBFOLDER
    out = given.out or own
    only = given.only or (["metrics"] if given.metric else None)
    choice: Choice | None = None
    if only is not None:
        choice = dict.fromkeys(only)
    elif given.policies is None and alone is not None and alone.is_dir():
        choice = asked_by_sweep(alone)
    options = Options(given.by, given.interval, given.size, given.metric or ())
    drawn = draw(given.folders, out, choice, given.policies, dict(given.where or ()), options)
    if alone is not None and out == own:
        show_in_tensorboard(drawn, out)
    console().print(files_table(drawn))


def asked_by_sweep(folder: Path) -> Choice | None:
    """Returns the figures that the sweep in a folder asked for; None if it asked for none.

    Raises:
        FairbanditError: Hydra's record of the sweep is damaged.
    """
    path = folder / _SWEEP
    if not path.is_file():
        return None
    try:
        config = safe_load(path.read_text(encoding="utf-8"))
        return figures_asked(config.get("figures")) or None
    except (OSError, ValueError, AttributeError, RecursionError, YAMLError) as error:
        raise FairbanditError(f"{path} cannot be read: {error}; remove it") from error


def figures_asked(asked: Any) -> Choice:
    """Reads the value of a config's key `figures`: a list, of which null stands for an empty one.

    Raises:
        FairbanditError: an unknown figure, or neither names nor mappings of names to policies.
    """
    choice: dict[str, list[str] | None] = {}
    for item in asked if isinstance(asked, list) else [] if asked is None else [None]:
        own = {item: None} if isinstance(item, str) else item
        if not isinstance(own, dict) or any(isinstance(who, str) for who in own.values()):
            raise FairbanditError(
                "figures is a list of names, each alone or with the policies that it shows, as in "
                f"figures=[{{overview:[greedy,uniform]}},price]; got {asked!r}"
            )
        choice.update(own)
    check_choice(choice)
    return choice


def files_table(drawn: Sequence[Drawn]) -> Table:
    """Returns a table of the files that were written."""
    rows = [
        [one.scene, one.figure, "\n".join(str(short(file)) for file in one.files)] for one in drawn
    ]
    first = int(len({one.scene for one in drawn}) == 1)  # that of the environment is left out
    headers = ["environment", "figure", "files"]
    return make_table(headers[first:], [row[first:] for row in rows], box=None, pad_edge=False)


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise ArgumentTypeError("expected at least one name")
    return names


def _condition(text: str) -> tuple[str, list[str]]:
    key, equals, values = text.partition("=")
    if not (key and equals and values):
        raise ArgumentTypeError(f"expected KEY=VALUES, as in regularization=0.1,1; got {text!r}")
    return key, [values] if values.startswith("[") else _names(values)  # a list is one value


def _size(text: str) -> tuple[float, float]:
    found = re.fullmatch(r"(\d+\.?\d*)x(\d+\.?\d*)", text)
    width, height = map(float, found.groups()) if found else (0.0, 0.0)
    if not (2 <= width <= _MOST_INCHES and 2 <= height <= _MOST_INCHES):
        raise ArgumentTypeError(
            f"expected 2 to {_MOST_INCHES} inches each way, as in 6.75x2.5; got {text!r}"
        )
    return width, height

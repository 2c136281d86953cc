"""`fairbandit figures`: draws figures of saved runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from fairbandit.cli.messages import short
from fairbandit.cli.parsers import tool_parser
from fairbandit.errors import FairbanditError
from fairbandit.figures.compose import FIGURES
from fairbandit.figures.draw import SUBFOLDER, Choice, Drawn, draw, kept_choice, show_in_tensorboard
from fairbandit.figures.facets import MOST_RUNS, Options
from fairbandit.results.choice import Conditions
from fairbandit.run.table import console, make_table

_MOST_INCHES = 50

_HELP = f"""\
Draws figures of the finished runs below some folders, as PNG and PDF, without simulating. Runs in
different environments are drawn apart; runs of one policy are told apart by what differs, and those
that differ in nothing but their seeds are one. Bands and error bars are one standard deviation to
either side of the mean, over the replicas of all seeds. More than {MOST_RUNS} runs become panels of
at most so many, which share a setting where that is possible.

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


def figures(words: Sequence[str]) -> None:
    """Draws figures and lists their files.

    Args:
        words: folders and options.

    Raises:
        FairbanditError: wrong words, no runs, damaged runs, or a folder that cannot be written to.
    """
    parser = tool_parser("figures", _HELP, _EXAMPLES)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="where runs are")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help=f"where the files go; by default FOLDER/{SUBFOLDER}, or {SUBFOLDER} if several",
    )
    parser.add_argument(
        "--only", metavar="NAMES", help=f"which, separated by commas: {', '.join(FIGURES)}"
    )
    parser.add_argument("--policies", metavar="NAMES", help="whose runs, separated by commas")
    parser.add_argument(
        "--where",
        action="append",
        metavar="KEY=VALUES",
        help="only runs with one of these values, separated by commas, of a setting; its key may be"
        " short, as in figures; of several --where all hold",
    )
    parser.add_argument(
        "--metric",
        metavar="NAMES",
        help="the metrics that the figure metrics shows, separated by commas: fair_regret,"
        " standard_regret, or a column that runs were asked for; it is then the only figure,"
        " unless --only names others",
    )
    parser.add_argument("--by", metavar="KEY", help="a panel for each value of this setting")
    parser.add_argument(
        "--interval",
        action="store_true",
        help="bands and bars are 95 %% intervals of the mean, in place of the standard deviation",
    )
    parser.add_argument("--size", metavar="WxH", help="of each figure in inches, as in 6.75x2.5")
    given = parser.parse_args(words)
    size = None if given.size is None else _size(given.size)
    metrics = [] if given.metric is None else _listed(given.metric, "--metric")
    options = Options(given.by, given.interval, size, metrics)
    alone = given.folders[0] if len(given.folders) == 1 else None
    own = Path(SUBFOLDER) if alone is None else alone / SUBFOLDER
    out = own if given.out is None else given.out
    policies = None if given.policies is None else _listed(given.policies, "--policies")
    only = "metrics" if metrics and given.only is None else given.only
    choice = _choice(only, policies, alone)
    where = _conditions(given.where or [])
    drawn = draw(given.folders, out, choice, policies, where, options)
    if alone is not None and out == own:
        show_in_tensorboard(drawn, out)
    console().print(files_table(drawn))


def files_table(drawn: Sequence[Drawn]) -> Table:
    """Returns a table of the files that were written."""
    several = len({one.scene for one in drawn}) > 1
    rows = []
    for one in drawn:
        files = "\n".join(str(short(file)) for file in one.files)
        rows.append([*([one.scene] if several else []), one.figure, files])
    headers = [*(["environment"] if several else []), "figure", "files"]
    return make_table(headers, rows, box=None, pad_edge=False)


def _choice(only: str | None, policies: Sequence[str] | None, folder: Path | None) -> Choice | None:
    """Returns the figures that the options ask for or, without any, the sweep in the folder."""
    if only is not None:
        return dict.fromkeys(_listed(only, "--only"), policies)
    if policies is None and folder is not None and folder.is_dir():
        return kept_choice(folder)
    return None


def _conditions(words: Sequence[str]) -> Conditions:
    """Reads the values of --where; a list is one value."""
    conditions = {}
    for word in words:
        key, equals, values = word.partition("=")
        if not (key and equals and values):
            raise FairbanditError(
                f"--where needs KEY=VALUES, as in regularization=0.1,1; got {word!r}"
            )
        conditions[key] = [values] if values.startswith("[") else _listed(values, "--where")
    return conditions


def _size(text: str) -> tuple[float, float]:
    """Reads the value of --size."""
    found = re.fullmatch(r"([0-9.]{1,5})x([0-9.]{1,5})", text)
    try:
        width, height = map(float, found.groups() if found else ())
    except ValueError:
        raise FairbanditError(f"--size needs inches as WxH, as in 6.75x2.5; got {text!r}") from None
    if not (2 <= width <= _MOST_INCHES and 2 <= height <= _MOST_INCHES):
        raise FairbanditError(f"--size must be 2 to {_MOST_INCHES} inches each way, got {text}")
    return width, height


def _listed(text: str, option: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise FairbanditError(f"{option} needs at least one name")
    return names

"""`fairbandit figures`: draws figures of saved runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from fairbandit.cli.messages import short
from fairbandit.cli.parsers import tool_parser
from fairbandit.errors import FairbanditError
from fairbandit.figures.compose import FIGURES
from fairbandit.figures.draw import SUBFOLDER, Choice, Drawn, draw, kept_choice, show_on_board
from fairbandit.run.table import console, make_table

_HELP = """\
Draws figures of the finished runs below some folders, as PNG and PDF, without simulating. Runs in
different environments are drawn apart; runs of one policy are told apart by what differs.

figures:
""" + "\n".join(f"  {name:<15}{plan.help}" for name, plan in FIGURES.items())

_EXAMPLES = """\
examples:
  fairbandit figures outputs/sweeps/experiment-simulation
  fairbandit figures outputs --only price --out paper/figures
  fairbandit figures one_folder another_folder --policies fair_greedy,oful,uniform

Without --only and --policies, a sweep that asked for figures gets those again, and others get all
that their runs make (frontier, of runs of policy/rank=tradeoff, is drawn only when asked for)."""


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
    given = parser.parse_args(words)
    alone = given.folders[0] if len(given.folders) == 1 else None
    own = Path(SUBFOLDER) if alone is None else alone / SUBFOLDER
    out = own if given.out is None else given.out
    policies = None if given.policies is None else _listed(given.policies, "--policies")
    drawn = draw(given.folders, out, _choice(given.only, policies, alone), policies)
    if alone is not None and out == own:
        show_on_board(drawn, out)
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


def _listed(text: str, option: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise FairbanditError(f"{option} needs at least one name")
    return names

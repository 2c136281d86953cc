"""`fairbandit parity`: tests whether saved runs pick all groups with equal probability."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from fairbandit.audit import LEVEL, Report, report
from fairbandit.cli.messages import one_message, short
from fairbandit.cli.parsers import tool_parser
from fairbandit.errors import PREFIX, FairbanditError
from fairbandit.run.table import console, named

_HELP = """\
Tests runs for demographic parity, from the rows that they saved; nothing is simulated.

Where each group has a place of its own (K = G, as in the simulation): the probability that each
group is picked, estimated in every round from the replicas, with a band that holds for all rounds
and groups at once, and a test of every round against 1/K by binomial tails, corrected over groups
by Bonferroni's and over rounds by Holm's method. The level holds for any number of replicas; to
see small departures takes many replicas of few rounds: fairbandit +experiment=parity.

Where pools mix groups at random: selected / received for each group, over all rounds, tested
against 1/K for policies that do not learn, such as gmf. Parity does not carry over to policies
that learn: their rates are reported beside it.

Writes parity.csv, parity.png and parity.pdf (groups at random: parity_groups.png, .pdf)."""

_EXAMPLES = """\
examples:
  fairbandit +experiment=parity
  fairbandit policy=greedy rounds=20 replicas=20000 hydra.run.dir=outputs/greedy
  fairbandit parity outputs/greedy
  fairbandit parity outputs/one outputs/other --out audit --level 0.01"""


def parity(words: Sequence[str]) -> None:
    """Audits saved runs, prints a table and writes the files.

    Args:
        words: folders, and `--level` and `--out`.

    Raises:
        FairbanditError: wrong words, a folder without runs, or one that cannot be written to.
    """
    parser = tool_parser("parity", _HELP, _EXAMPLES)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="where runs are")
    parser.add_argument(
        "--level",
        type=float,
        default=LEVEL,
        help="the most probable that a run with parity is rejected (default: %(default)s)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="where the files go (default: the folder, or with several the working directory)",
    )
    given = parser.parse_args(words)
    folders: list[Path] = given.folders
    out = given.out or (folders[0] if len(folders) == 1 else Path())
    show(report(*folders, out=out, level=given.level))


def show(made: Report) -> None:
    """Prints a report's table and names its files."""
    shown = console()
    shown.print(made.table)
    for path in made.files:
        shown.print(named("written", short(path.absolute())), soft_wrap=True)


class ParityAudit(Callback):
    """A callback of Hydra that audits a sweep at its end."""

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Reads the sweep's folder, whoever ran its jobs.

        Raises:
            SystemExit: no job finished, or the folder cannot be written to. Hydra would turn any
                other error into a warning.
        """
        try:
            show(report(Path(config.hydra.sweep.dir)))
        except (FairbanditError, OSError) as error:
            raise SystemExit(f"{PREFIX}{one_message(error)}") from None

"""`fairbandit parity`: tests whether saved runs pick all groups with equal probability."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from fairbandit.audit import LEVEL, report
from fairbandit.audit.report import FILES
from fairbandit.cli.messages import one_message, short
from fairbandit.cli.parsers import tool_parser
from fairbandit.errors import PREFIX, FairbanditError
from fairbandit.run.table import console, named

_HELP = """\
Tests runs for demographic parity, from the rows that they saved; nothing is simulated.

Where each group has a place of its own (as in the simulation), the probability that each group is
picked is tested against 1/K in every round; it takes many replicas. Where pools mix groups at
random, selected / received of each group, over all rounds, is tested for policies of which no part
reads earlier rounds, and reported for the others. The level holds for any number of replicas.

Writes parity.csv, parity.png and parity.pdf."""

_EXAMPLES = """\
examples:
  fairbandit +experiment=parity
  fairbandit parity outputs/one outputs/other --out audit --level 0.01"""


def parity(words: Sequence[str]) -> None:
    """Audits saved runs, prints a table and writes the files; see `audit.report`."""
    parser = tool_parser("parity", _HELP, _EXAMPLES, folders=True)
    level = "the most probable that a run with parity is rejected (default: %(default)s)"
    parser.add_argument("--level", type=float, default=LEVEL, help=level)
    out = "where the files go (default: the first folder)"
    parser.add_argument("--out", type=Path, metavar="FOLDER", help=out)
    given = parser.parse_args(words)
    _report(given.folders, given.out or given.folders[0], given.level)


def _report(folders: Sequence[Path], out: Path, level: float) -> None:
    shown = console()
    shown.print(report(*folders, out=out, level=level))
    for name in FILES:
        shown.print(named("written", short((out / name).absolute())), soft_wrap=True)


class ParityAudit(Callback):
    """A callback of Hydra that audits a sweep at its end."""

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Reads the sweep's folder, whoever ran its jobs.

        Raises:
            SystemExit: no job finished, or the folder cannot be written to. Hydra would turn any
                other error into a warning.
        """
        folder = Path(config.hydra.sweep.dir)
        try:
            _report([folder], folder, LEVEL)
        except (FairbanditError, OSError) as error:
            raise SystemExit(f"{PREFIX}{one_message(error)}") from None

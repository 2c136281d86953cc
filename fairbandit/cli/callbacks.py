"""What follows a sweep: one table over all of its jobs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from fairbandit.run import summary as summaries
from fairbandit.run.folder import SUMMARY
from fairbandit.run.table import console, sweep_table

_open: list[Path] = []


class SweepTable(Callback):
    """Prints a table when a sweep ends, from the summaries in its folder, whoever ran the jobs."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Notes the sweep's folder."""
        _open[:] = [Path(config.hydra.sweep.dir)]

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Prints the table."""
        finish_sweep()


def finish_sweep() -> None:
    """Prints the table of the sweep that has not had its own yet; also after a job failed."""
    while _open:
        folder = _open.pop()
        found = sorted(folder.rglob(SUMMARY), key=_natural)
        jobs = [
            (str(path.parent.relative_to(folder)), summaries.read(path.parent)) for path in found
        ]
        if jobs:
            shown = console()
            shown.print(sweep_table(jobs))
            shown.print(f"[bold]results[/bold]  {folder}", highlight=False, soft_wrap=True)


def _natural(path: Path) -> list[tuple[int, str]]:
    """Sorts seed-2 before seed-10."""
    pieces = re.split(r"(\d+)", str(path))
    return [(int(piece), "") if piece.isdigit() else (-1, piece) for piece in pieces]

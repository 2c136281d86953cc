"""Locks the folder of a sweep before its jobs run, and prints a table of them afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig, open_dict, read_write
from omegaconf.errors import OmegaConfBaseException

from fairbandit.cli.configs import plain_value
from fairbandit.cli.messages import one_message, short
from fairbandit.cli.names import check_output
from fairbandit.cli.sweeps import (
    figures_asked,
    finished_in,
    forget_error,
    gather_sweep,
    outcomes,
)
from fairbandit.errors import PREFIX, FairbanditError
from fairbandit.figures.draw import Choice
from fairbandit.run.folder import ERROR, claim, fresh, walk
from fairbandit.run.table import Outcome, console, failures_table, named, sweep_table

_DIR = "hydra.sweep.dir"


@dataclass
class _Sweep:
    """A sweep that this process drives."""

    folder: Path
    before: Mapping[Path, int]
    held: ExitStack
    figures: Choice


_driven: list[_Sweep] = []


class Sweeps(Callback):
    """Locks the sweep's folder, and frees the configs of finished jobs."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Chooses the folder, locks it, and records which jobs are finished there.

        Raises:
            SystemExit: the folder cannot be written to, or another sweep is writing there. Hydra
                would turn any other error into a warning.
        """
        try:
            _begin(config)
        except (FairbanditError, OmegaConfBaseException, OSError) as error:
            raise SystemExit(f"{PREFIX}{one_message(error)}") from None

    def on_job_end(self, config: DictConfig, job_return: Any, **kwargs: Any) -> None:
        """Frees a job's config, which the driver would otherwise keep until the sweep ends."""
        job_return.cfg = job_return.hydra_cfg = None


def finish_sweep(*, table: bool = True) -> list[Outcome]:
    """Ends the sweep that this process drives, if there is one.

    Args:
        table: whether to print a table of all jobs in the sweep's folder and to save it there with
            the figures that the config names.

    Returns:
        The jobs that failed.
    """
    if not _driven:
        return []
    sweep = _driven.pop()
    with sweep.held:
        jobs = outcomes(sweep.folder, sweep.before)
        failed = [job for job in jobs if job.error is not None]
        if jobs and table:
            shown = console()
            shown.print(sweep_table(jobs))
            if failed:
                shown.print(failures_table(failed))
            place = short(sweep.folder)
            shown.print(named("results", place), soft_wrap=True)
            if any(job.summary for job in jobs):
                gather_sweep(sweep.folder, sweep.figures, shown)
        return failed


def drives_sweep() -> bool:
    """Whether this process drives a sweep, rather than runs a job of one."""
    return bool(_driven)


def _begin(config: DictConfig) -> None:
    check_output("hydra.sweep.dir", config.hydra.sweep.dir)
    folder = Path(config.hydra.sweep.dir).absolute()
    if not config.resume:
        folder = fresh(folder)
    figures = figures_asked(plain_value(config, "figures"))
    _settle(config, folder)
    held = ExitStack()
    taken = (
        f"another sweep is writing to {short(folder)}; wait until it is done and then give the "
        "same command again, or choose another folder with hydra.sweep.dir"
    )
    held.enter_context(claim(folder, taken))
    for place, _, files in walk(folder):
        if ERROR in files:
            forget_error(Path(place))
    _driven[:] = [_Sweep(folder, finished_in(folder), held, figures)]


def _settle(config: DictConfig, folder: Path) -> None:
    """Sets the sweep's folder to an absolute path, since workers may run in other folders."""
    quoted = str(folder).replace("\\", "\\\\").replace("'", "\\'")
    with read_write(config), open_dict(config):
        config.hydra.sweep.dir = str(folder)
        others = [word for word in config.hydra.overrides.hydra if not word.startswith(_DIR)]
        config.hydra.overrides.hydra = [*others, f"{_DIR}='{quoted}'"]

"""Locks the folder of a sweep before its jobs run, and writes their results there afterwards.

The folder holds the errors and the outcomes of the jobs, one table of their results, and figures.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig, open_dict, read_write
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console

from fairbandit.cli import composing
from fairbandit.cli.configs import plain_value
from fairbandit.cli.figures import files_table
from fairbandit.cli.messages import one_message, short
from fairbandit.cli.names import check_output
from fairbandit.cli.outcomes import Outcome, failures_table, outcomes, sweep_table
from fairbandit.errors import PREFIX, FairbanditError
from fairbandit.figures.draw import (
    SUBFOLDER,
    Choice,
    check_choice,
    draw,
    keep_choice,
    show_in_tensorboard,
)
from fairbandit.results import read_runs
from fairbandit.results.table import tidy, write
from fairbandit.run import folder as folders
from fairbandit.run.folder import ERROR, SUMMARY
from fairbandit.run.progress import sweep_progress
from fairbandit.run.table import console, named

RESULTS = "results.csv"
"""The file of a sweep's table, which has a row for each finished job."""

ENDED = ".ended"
"""The file that holds a byte for each job that has ended, while the sweep runs."""

_DIR = "hydra.sweep.dir"


@dataclass
class _Sweep:
    """A sweep that this process drives, and the times of the summaries that were there before."""

    folder: Path
    before: Mapping[Path, int]
    held: ExitStack
    progress: ExitStack
    figures: Choice


_driven: list[_Sweep] = []


class Sweeps(Callback):
    """Locks the sweep's folder, counts the jobs that have ended, and frees their configs."""

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

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Tells the driver, which may be another process, that jobs have begun."""
        _mark(config, b"")

    def on_job_end(self, config: DictConfig, job_return: Any, **kwargs: Any) -> None:
        """Counts a job, and frees its config, which the driver would keep until the sweep ends."""
        _mark(config, b".")
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
        sweep.progress.close()
        jobs = outcomes(sweep.folder, sweep.before)
        failed = [job for job in jobs if job.error]
        if jobs and table:
            shown = console()
            shown.print(sweep_table(jobs))
            if any(job.run is None for job in jobs):
                shown.print(failures_table(jobs))
            shown.print(named("results", short(sweep.folder)), soft_wrap=True)
            if any(job.run is not None for job in jobs):
                _gather(sweep, shown)
        return failed


def drives_sweep() -> bool:
    """Whether this process drives a sweep, rather than runs a job of one."""
    return bool(_driven)


def _begin(config: DictConfig) -> None:
    check_output("hydra.sweep.dir", config.hydra.sweep.dir)
    folder = Path(config.hydra.sweep.dir).absolute()
    if not config.resume:
        folder = folders.fresh(folder)
    figures = figures_asked(plain_value(config, "figures"))
    _settle(config, folder)
    held = ExitStack()
    taken = (
        f"another sweep is writing to {short(folder)}; wait until it is done and then give the "
        "same command again, or choose another folder with hydra.sweep.dir"
    )
    held.enter_context(folders.claim(folder, taken))
    held.callback(_remove, folder / ENDED)
    _remove(folder / ENDED)
    total = composing.job_count.jobs
    jobs = "jobs" if total is None else "1 job" if total == 1 else f"{total:,} jobs"
    print(f"{jobs} in {short(folder)}", flush=True)
    for place, _, files in folders.walk(folder):
        if ERROR in files:
            forget_error(Path(place))
    finished = map(Path, folders.finished_below(folder))
    before = {place: (place / SUMMARY).stat().st_mtime_ns for place in finished}
    progress = ExitStack()
    progress.enter_context(sweep_progress(partial(_where, folder / ENDED), total))
    _driven[:] = [_Sweep(folder, before, held, progress, figures)]
    gc.freeze()  # imported modules stay: collecting garbage need not look at them in every job


def _mark(config: DictConfig, mark: bytes) -> None:
    """Appends to the file that counts the jobs of a sweep that have ended."""
    if config.hydra.mode == RunMode.MULTIRUN:
        with suppress(OSError), (Path(config.hydra.sweep.dir) / ENDED).open("ab") as file:
            file.write(mark)


def _where(ended: Path) -> tuple[str, int]:
    """Says how far the sweep is: configs are checked before the first job begins."""
    try:
        return "jobs done", ended.stat().st_size
    except FileNotFoundError:
        return "configs checked", composing.job_count.composed


def _settle(config: DictConfig, folder: Path) -> None:
    """Sets the sweep's folder to an absolute path, since workers may run in other folders."""
    quoted = str(folder).replace("\\", "\\\\").replace("'", "\\'")
    with read_write(config), open_dict(config):
        config.hydra.sweep.dir = str(folder)
        others = [word for word in config.hydra.overrides.hydra if not word.startswith(_DIR)]
        config.hydra.overrides.hydra = [*others, f"{_DIR}='{quoted}'"]


def note_error(folder: Path, text: str) -> bool:
    """Writes a job's error to its folder, for the sweep's table; returns whether it could."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with folders.written_aside(folder / ERROR) as file:
            file.write(f"{text.rstrip()}\n".encode())
    except OSError:
        return False
    return True


def forget_error(folder: Path) -> None:
    """Removes the error of a job that is played again."""
    _remove(folder / ERROR)


def _remove(file: Path) -> None:
    with suppress(OSError):
        file.unlink(missing_ok=True)


def figures_asked(asked: Any) -> Choice:
    """Reads the value of a config's key `figures`; null stands for no figure.

    Raises:
        FairbanditError: an unknown figure, or neither names nor a mapping.
    """
    asked = [] if asked is None else asked
    if not isinstance(asked, list) or not all(map(_names_figures, asked)):
        raise FairbanditError(
            "figures is a list of names, each alone or with the policies that it shows, as in "
            f"figures=[{{overview:[greedy,uniform]}},price]; got {asked!r}"
        )
    choice: dict[str, list[str] | None] = {}
    for item in asked:
        choice.update({item: None} if isinstance(item, str) else item)
    check_choice(choice)
    return choice


def _names_figures(item: Any) -> bool:
    """Whether an item is the name of a figure, or maps names to policies."""
    if not isinstance(item, dict):
        return isinstance(item, str)
    return all(
        isinstance(name, str)
        and isinstance(policies, list)
        and len(policies) > 0
        and all(isinstance(policy, str) for policy in policies)
        for name, policies in item.items()
    )


def _gather(sweep: _Sweep, shown: Console) -> None:
    """Writes a sweep's table and figures, from the jobs that are finished in its folder."""
    folder, out = sweep.folder, sweep.folder / SUBFOLDER
    write(tidy(read_runs([folder])), folder / RESULTS)
    shown.print(named("table", short(folder / RESULTS)), soft_wrap=True)
    drawn = draw([folder], out, sweep.figures) if sweep.figures else []
    if not drawn:
        return
    try:
        if sweep.figures:
            keep_choice(sweep.figures, out)
        show_in_tensorboard(drawn, out)
    except OSError as error:
        raise FairbanditError(f"cannot write figures to {out}: {error.strerror}") from error
    shown.print(files_table(drawn))

"""Prepares the folder of a sweep before its jobs run, and gathers their results afterwards.

The folder holds the folders of the jobs, with their results or errors, one table, and figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from pathlib import Path
from textwrap import fill
from typing import Any

from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, Quote, QuotedString
from hydra.core.utils import JobReturn
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, open_dict, read_write

from fairbandit.cli.figures import figures_asked, print_files
from fairbandit.cli.messages import one_message, short
from fairbandit.cli.store import plain_config, task_words
from fairbandit.errors import PREFIX, FairbanditError, printable
from fairbandit.figures.draw import SUBFOLDER, Choice, draw
from fairbandit.files.files import fresh, within
from fairbandit.policy.build import search_configs
from fairbandit.runs import pool, read_runs
from fairbandit.runs.folder import ERROR, REFUSED, SUMMARY, claim, finished_below
from fairbandit.runs.overview import finding, overview
from fairbandit.runs.progress import progress_bar
from fairbandit.runs.sheets import console, named, write
from fairbandit.runs.tables import pooled, tidy

RESULTS = "results.csv"
"""The file of a sweep's table, which has a row for each finished job and measure."""


@dataclass
class _Sweep:
    folder: Path
    before: dict[str, int]
    figures: Choice
    held: ExitStack  # the lock of the folder, and the progress bar
    advance: Callable[..., None]


_driven: list[_Sweep] = []


def drives_sweep() -> bool:
    """Whether this process drives a sweep, rather than runs one of its jobs."""
    return bool(_driven)


class Sweeps(Callback):
    """Locks the sweep's folder, and counts its jobs."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Checks the figures, and chooses and locks the sweep's folder.

        Raises:
            SystemExit: the sweep is empty, a figure is unknown, or the folder cannot be written
                to. Hydra would turn any other error into a warning.
        """
        try:
            _begin(config)
        except Exception as error:
            raise SystemExit(printable(f"{PREFIX}{one_message(error)}")) from None

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        """Counts a job."""
        if _driven:
            _driven[-1].advance()


def _begin(config: DictConfig) -> None:
    paths = [source.path for source in config.hydra.runtime.config_sources]
    search_configs(Path(path) for path in paths if Path(path).is_dir())
    figures = figures_asked(plain_config(config.figures))
    words = _words(config)
    swept = [word for word in words if word.is_discrete_sweep()]
    total = prod(len(list(word.sweep_iterator())) for word in swept)
    if not total:
        raise FairbanditError("a swept key has an empty list of values, so the sweep is empty")
    folder = Path(config.hydra.sweep.dir).absolute()
    if not config.resume:
        folder = fresh(folder)
    _settle(config, folder, [word for word in words if not word.is_sweep_override()])
    with ExitStack() as held:
        held.enter_context(claim(folder, f"another sweep is writing to {short(folder)}"))
        for error in _failures(folder):
            error.unlink()
        print(f"{total:,} {'job' if total == 1 else 'jobs'} in {short(folder)}", flush=True)
        advance = held.enter_context(progress_bar("jobs", total))
        _driven[:] = [_Sweep(folder, _finished(folder), figures, held.pop_all(), advance)]


def _words(config: DictConfig) -> list[Override]:
    params = config.hydra.sweeper.get("params") or {}
    given = [*(f"{key}={value}" for key, value in params.items()), *task_words(config)]
    parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
    return list({word.get_key_element(): word for word in parser.parse_overrides(given)}.values())


def _settle(config: DictConfig, folder: Path, fixed: list[Override]) -> None:
    """Fixes the sweep's folder for remote workers, and keeps shared keys out of job names."""
    place = QuotedString(str(folder), Quote.single).with_quotes()
    excluded = config.hydra.job.config.override_dirname.exclude_keys
    keys = [*excluded, *(word.get_key_element().lstrip("+~") for word in fixed)]
    with read_write(config), open_dict(config):
        config.hydra.sweep.dir = str(folder)
        config.hydra.overrides.hydra += [
            f"hydra.sweep.dir={place}",
            f"hydra.job.config.override_dirname.exclude_keys={keys}",
        ]


def failed_jobs() -> list[Path]:
    """Returns the files with the errors of the jobs of the sweep that this process drives."""
    return _failures(_driven[-1].folder) if _driven else []


def finish_sweep(*, results: bool = True) -> int:
    """Ends the sweep that this process drives, if any; returns the number of failed jobs.

    With `results`, a table of all jobs is written and printed, and the figures are drawn.
    """
    if not _driven:
        return 0
    sweep = _driven.pop()
    sweep.held.close()
    errors = {
        str(file.parent.relative_to(sweep.folder)): file.read_text("utf-8").splitlines()[-1]
        for file in _failures(sweep.folder)
    }
    if results:
        _gather(sweep, errors)
    return len(errors)


def _gather(sweep: _Sweep, errors: Mapping[str, str]) -> None:
    folder, shown = sweep.folder, console()
    refused = {str(file.parent) for file in folder.rglob(REFUSED)}
    finished = {run: time for run, time in _finished(folder).items() if run not in refused}
    if finished:
        runs = [run for run in read_runs([folder]) if str(run.folder) not in refused]
        write(pooled(tidy(runs), each=True), folder / RESULTS)
        settings = pool(runs)
        shown.print(overview(settings))
        if sentence := finding(settings):
            shown.print(fill(sentence, 80), highlight=False)
    skipped = len(finished.items() & sweep.before.items())
    counts = {"finished": len(finished) - skipped, "skipped": skipped, "failed": len(errors)}
    totals = ", ".join(f"{number:,} {outcome}" for outcome, number in counts.items() if number)
    shown.print(f"All jobs: {totals}", highlight=False)
    for error, number in Counter(errors.values()).items():
        first = next(job for job, text in errors.items() if text == error)
        jobs = first if number == 1 else f"{number:,} jobs, as {first}"
        shown.print(f"failed  {jobs}: {error}", soft_wrap=True, highlight=False)
    shown.print(named("results", short(folder / RESULTS if finished else folder)), soft_wrap=True)
    if finished and sweep.figures:
        print_files(draw([folder], within(folder, SUBFOLDER), sweep.figures))


def _failures(folder: Path) -> list[Path]:
    return sorted(file for name in (ERROR, REFUSED) for file in folder.rglob(name))


def _finished(folder: Path) -> dict[str, int]:
    return {run: (Path(run) / SUMMARY).stat().st_mtime_ns for run in finished_below(folder)}

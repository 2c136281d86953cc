"""Prepares the folder of a sweep before its jobs run, and gathers their results afterwards.

The folder holds the errors and the outcomes of the jobs, one table of their results, and figures.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice, product
from math import prod
from pathlib import Path
from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, Quote, QuotedString
from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import HydraException
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from omegaconf.errors import OmegaConfBaseException

from fairbandit.building import build
from fairbandit.cli.figures import figures_asked, files_table
from fairbandit.cli.messages import memory_errors, one_message, short
from fairbandit.cli.store import plain_config, task_words
from fairbandit.errors import PREFIX, FairbanditError
from fairbandit.figures.draw import SUBFOLDER, Choice, draw, show_in_tensorboard
from fairbandit.files import fresh
from fairbandit.results import pool, read_runs
from fairbandit.results.overview import overview
from fairbandit.results.table import tidy, write
from fairbandit.run.folder import ERROR, SUMMARY, claim, finished_below
from fairbandit.run.progress import progress_bar
from fairbandit.run.table import console, named

RESULTS = "results.csv"
"""The file of a sweep's table, which has a row for each finished job."""

_CHECKED = 20  # environments that are loaded before a sweep begins
_OF_DATA = ("environment", "experiment")  # how keys begin whose values may change the environment


@dataclass
class _Sweep:
    """A sweep that this process drives, and the times of the summaries that were there before."""

    folder: Path
    before: dict[str, int]
    figures: Choice
    lock: ExitStack
    bars: ExitStack
    advance: Callable[..., None]


_driven: list[_Sweep] = []


def drives_sweep() -> bool:
    """Whether this process drives a sweep, rather than runs a job of one."""
    return bool(_driven)


class Sweeps(Callback):
    """Locks the sweep's folder, and makes a sweep go on when a job fails."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Checks what all jobs share, and chooses and locks the sweep's folder.

        Raises:
            SystemExit: a job cannot be composed, an environment cannot be loaded, or the folder
                cannot be written to. Hydra would turn any other error into a warning.
        """
        try:
            _begin(config)
        except Exception as error:
            known = FairbanditError, HydraException, OmegaConfBaseException, OSError
            if not isinstance(error, known):  # as of an environment of the user's own
                traceback.print_exc()
            raise SystemExit(f"{PREFIX}{one_message(error)}") from None

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        """Counts a job, whose error Hydra forgets if it stands in the job's folder."""
        if config.hydra.mode != RunMode.MULTIRUN:
            return
        if _driven:
            _driven[-1].advance()
        if (Path(config.hydra.runtime.output_dir) / ERROR).exists():
            job_return.return_value, job_return.status = None, JobStatus.COMPLETED


def _begin(config: DictConfig) -> None:
    figures = figures_asked(plain_config(config.figures))
    words = _words(config)
    total = prod(len(_choices(word)) for word in words.values())
    if not total:
        raise FairbanditError("a key that is swept has no value, so that the sweep has no job")
    folder = Path(config.hydra.sweep.dir).absolute()
    if not config.resume:
        folder = fresh(folder)
    _settle(config, folder, [key for key, word in words.items() if not word.is_sweep_override()])
    _check_environments(config, words)
    taken = (
        f"another sweep is writing to {short(folder)}; wait until it is done and then give the "
        "same command again, or choose another folder with hydra.sweep.dir"
    )
    with ExitStack() as lock, ExitStack() as bars:
        lock.enter_context(claim(folder, taken))
        for error in folder.rglob(ERROR):
            error.unlink()
        before = _finished(folder)
        print(f"{total:,} {'job' if total == 1 else 'jobs'} in {short(folder)}", flush=True)
        advance = bars.enter_context(progress_bar("jobs", total))
        _driven[:] = [_Sweep(folder, before, figures, lock.pop_all(), bars.pop_all(), advance)]


def _words(config: DictConfig) -> dict[str, Override]:
    """Returns the words of a sweep, and those of its experiment's file, by key."""
    params = config.hydra.sweeper.get("params") or {}
    given = [*(f"{key}={value}" for key, value in params.items()), *task_words(config)]
    parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
    return {word.get_key_element(): word for word in parser.parse_overrides(given)}


def _choices(word: Override) -> list[str]:
    """Returns the words KEY=VALUE among which the jobs choose."""
    if not word.is_discrete_sweep():
        return [str(word.input_line)]
    return [f"{word.get_key_element()}={value}" for value in word.sweep_string_iterator()]


def _settle(config: DictConfig, folder: Path, fixed: list[str]) -> None:
    """Sets the sweep's folder for workers in other places, and what the names of jobs leave out."""
    place = QuotedString(str(folder), Quote.single).with_quotes()
    kept = config.hydra.job.config.override_dirname.exclude_keys
    keys = ",".join(f"'{key.lstrip('+~')}'" for key in [*kept, *fixed])
    with read_write(config), open_dict(config):
        config.hydra.sweep.dir = str(folder)
        config.hydra.overrides.hydra += [
            f"hydra.sweep.dir={place}",
            f"hydra.job.config.override_dirname.exclude_keys=[{keys}]",
        ]


def _check_environments(config: DictConfig, words: Mapping[str, Override]) -> None:
    """Loads each of the first different environments of a sweep, whose errors all jobs share.

    Raises:
        FairbanditError: one cannot be loaded.
        HydraException: the config of its job cannot be composed.
    """
    choices = [
        _choices(word) if key.lstrip("+~").startswith(_OF_DATA) else _choices(word)[:1]
        for key, word in words.items()
    ]
    own: Any = OmegaConf.to_container(config.hydra.overrides.hydra, resolve=False)
    for job in islice(product(*choices), _CHECKED):
        composed = hydra.compose("config", [*own, *job], return_hydra_config=True)
        HydraConfig.instance().set_config(composed)
        with memory_errors():
            build(plain_config(composed.environment))


def finish_sweep(*, results: bool = True) -> int:
    """Ends the sweep that this process drives, if there is one; returns how many jobs failed.

    With `results`, a table of all its jobs is written and printed, and its figures are drawn.
    """
    if not _driven:
        return 0
    sweep = _driven.pop()
    with sweep.lock:
        sweep.bars.close()
        errors = {
            str(file.parent.relative_to(sweep.folder)): file.read_text("utf-8").splitlines()[-1]
            for file in sorted(sweep.folder.rglob(ERROR))
        }
        if results:
            _gather(sweep, errors)
        return len(errors)


def _gather(sweep: _Sweep, errors: Mapping[str, str]) -> None:
    """Writes a sweep's table, prints it with each job's error, and draws the figures."""
    folder, shown = sweep.folder, console()
    finished = _finished(folder)
    if finished:
        runs = read_runs([folder])
        write(tidy(runs), folder / RESULTS)
        shown.print(overview(pool(runs)))
    skipped = len(finished.items() & sweep.before.items())
    counts = {"finished": len(finished) - skipped, "skipped": skipped, "failed": len(errors)}
    totals = ", ".join(f"{number:,} {what}" for what, number in counts.items() if number)
    shown.print(f"All jobs: {totals}", highlight=False)
    for error, number in Counter(errors.values()).items():
        first = next(job for job, text in errors.items() if text == error)
        jobs = first if number == 1 else f"{number:,} jobs, as {first}"
        shown.print(f"failed  {jobs}: {error}", soft_wrap=True, highlight=False)
    shown.print(named("results", short(folder / RESULTS if finished else folder)), soft_wrap=True)
    if finished and sweep.figures:
        out = folder / SUBFOLDER
        drawn = draw([folder], out, sweep.figures)
        show_in_tensorboard(drawn, out)
        shown.print(files_table(drawn))


def _finished(folder: Path) -> dict[str, int]:
    """The finished runs below a folder, and when each was finished."""
    return {run: (Path(run) / SUMMARY).stat().st_mtime_ns for run in finished_below(folder)}

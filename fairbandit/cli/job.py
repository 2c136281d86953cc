"""The Hydra application: one job, in the main process or a worker, or a sweep of them.

The folder of a sweep holds the folders of its jobs, with their results or errors, one table, and
figures.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from textwrap import fill
from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from omegaconf.errors import OmegaConfBaseException

from fairbandit.cli.figures import figures_asked, print_files
from fairbandit.cli.messages import in_a_line, one_message, short
from fairbandit.cli.parsers import quoted
from fairbandit.cli.store import (
    made_callbacks,
    plain_config,
    publish,
    register_resolvers,
    task_words,
)
from fairbandit.errors import FULL_ERROR, PREFIX, FairbanditError, printable
from fairbandit.figures.draw import SUBFOLDER, Choice, draw
from fairbandit.files.files import fresh, within, written_aside
from fairbandit.policy.build import conf_folder, search_configs
from fairbandit.registry.plugins import load_plugins
from fairbandit.runs import Run, pooled, read_runs
from fairbandit.runs.execute import execute
from fairbandit.runs.folder import ERROR, SUMMARY, claim, finished_below
from fairbandit.runs.overview import finding, overview
from fairbandit.runs.scenes import pool
from fairbandit.runs.sheets import console, named, spread, write
from fairbandit.runs.tables import tidy

RESULTS = "results.csv"
"""The file of a sweep's table, which has a row for each finished job and measure."""

register_resolvers()  # in a worker, unpickling `run_job` imports this module


@dataclass
class _Sweep:
    folder: Path
    before: dict[str, int]  # the jobs that were finished before, with times of their summaries
    figures: Choice
    held: ExitStack  # the lock of the folder


_driven: list[_Sweep] = []  # the sweep of this process; a worker has none


def run_app(words: Sequence[str]) -> None:
    """Runs the Hydra application with overrides and flags: one job, or a sweep of them.

    Raises:
        FairbanditError: an error that the user can correct, which includes Hydra's errors of
            composition. With HYDRA_FULL_ERROR=1 Hydra's errors are raised unchanged.
    """
    publish()
    settings: Any = {"config_path": str(conf_folder()), "config_name": "config"}
    application = hydra.main(version_base="1.3", **settings)(run_job)
    try:
        with _given_to_hydra(words):
            application()
    except (KeyboardInterrupt, FairbanditError) as error:
        in_jobs = bool(_driven) and any(_driven[-1].folder.rglob(ERROR))  # or else in all configs
        if isinstance(error, KeyboardInterrupt) or not in_jobs:
            while _driven:
                _driven.pop().held.close()
            raise
    finally:
        failed = _finish_sweep(_driven.pop()) if _driven else 0
    if failed:
        raise FairbanditError(
            f"{failed:,} job{'s' * (failed > 1)} of this sweep failed; the same command skips "
            "finished jobs and tries the others again"
        )


@contextmanager
def _given_to_hydra(words: Sequence[str]) -> Iterator[None]:
    argv, full_error = sys.argv, os.environ.get(FULL_ERROR, "")
    ordered = sorted(words, key=lambda word: word not in ("-m", "--multirun"))  # first for argparse
    sys.argv, os.environ[FULL_ERROR] = ["fairbandit", *map(quoted, ordered)], "1"
    try:
        yield
    except Exception as error:
        in_job = any(f.name == "run_job" for f in traceback.extract_tb(error.__traceback__))
        of_config = isinstance(error, OmegaConfBaseException) or not in_job
        if full_error == "1" or not of_config:
            raise
        raise FairbanditError(one_message(error)) from error
    finally:
        sys.argv, os.environ[FULL_ERROR] = argv, full_error


def run_job(config: DictConfig) -> None:
    """Runs the job of a composed config in its Hydra folder, and prints its results.

    Raises:
        FairbanditError: an error that the user can correct; in a sweep any error, after it was
            written to the job's folder.
    """
    node = HydraConfig.get()
    folder = Path(node.runtime.output_dir)
    if node.job.chdir:  # relative paths of a config start from the folder of the command
        os.chdir(node.runtime.cwd)
    if node.mode == RunMode.MULTIRUN:
        _run_in_sweep(config, folder, f"job {node.job.num} ({folder.name}): ")
        return
    if not config.resume:
        folder = fresh(folder)
    summary, again = _execute_job(config, folder, "")
    console().print(overview(pool([Run(folder, summary)])))
    console().print(named("results", f"{again}{short(folder)}"), soft_wrap=True)


def _run_in_sweep(config: DictConfig, folder: Path, job: str) -> None:
    try:
        summary, again = _execute_job(config, folder, job)
    except Exception as error:
        expected = isinstance(error, (FairbanditError, OmegaConfBaseException, OSError))
        message = one_message(error) if expected else in_a_line(error)
        print(printable(f"{PREFIX}{job}{message}"), file=sys.stderr, flush=True)
        with written_aside(folder / ERROR) as file:
            file.write(f"{message if expected else traceback.format_exc().rstrip()}\n".encode())
        raise FairbanditError(f"{job}{message}") from None
    regret = summary["metrics"]["fair_regret"]
    result = "" if regret["mean"] is None else f"fair regret {spread(regret)}, "
    print(f"{job}{again}{result}{summary['seconds']:.2f} s", flush=True)


def _execute_job(config: DictConfig, folder: Path, job: str) -> tuple[dict[str, Any], str]:
    again = "already finished: "

    def started(news: str) -> None:
        nonlocal again
        again = ""
        (folder / ERROR).unlink(missing_ok=True)
        if news:
            print(printable(f"{job}{news}"), file=sys.stderr, flush=True)
        saved = within(folder, ".hydra")  # written once the folder is known to be the job's
        saved.mkdir(exist_ok=True)
        parts: dict[str, Any] = {"config": config, "hydra": HydraConfig.instance().cfg}
        parts["overrides"] = HydraConfig.get().overrides.task
        for name, part in parts.items():
            with written_aside(saved / f"{name}.yaml") as file:
                file.write(OmegaConf.to_yaml(part).encode())

    load_plugins()  # a worker on another host has not loaded them
    plain = plain_config(config)
    del plain["figures"]  # figures are drawn when a sweep ends
    plain["resume"] |= bool(job)  # with resume=false, the sweep already has a new folder
    callbacks = made_callbacks(plain.pop("callbacks"))
    options: Any = {"started": started, "callbacks": callbacks, "wait": bool(job)}
    return execute(plain, folder, progress=bool(_driven) or not job, **options), again


class Sweeps(Callback):
    """Begins a sweep before its first job."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Begins the sweep; Hydra would turn any error but SystemExit into a warning."""
        try:
            _driven[:] = [_begin(config)]
        except Exception as error:
            raise SystemExit(printable(f"{PREFIX}{one_message(error)}")) from None


def _begin(config: DictConfig) -> _Sweep:
    """Checks the settings that all jobs share, and chooses and locks the folder of the sweep."""
    paths = [Path(source.path) for source in config.hydra.runtime.config_sources]
    search_configs(path for path in paths if path.is_dir())
    figures = figures_asked(plain_config(config.figures))
    params = config.hydra.sweeper.get("params") or {}
    overrides = [*(f"{key}={value}" for key, value in params.items()), *task_words(config)]
    parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
    words = {word.get_key_element(): word for word in parser.parse_overrides(overrides)}
    swept = [word for word in words.values() if word.is_discrete_sweep()]
    total = prod(len(list(word.sweep_iterator())) for word in swept)
    if not total:
        raise FairbanditError("a swept key has an empty list of values, so the sweep is empty")
    folder = Path(config.hydra.sweep.dir).absolute()
    if not config.resume:
        folder = fresh(folder)
    place = QuotedString(str(folder), Quote.single).with_quotes()
    # names of jobs are without the keys that all jobs share
    shared = [key.lstrip("+~") for key, word in words.items() if not word.is_sweep_override()]
    unnamed = [*config.hydra.job.config.override_dirname.exclude_keys, *shared]
    with read_write(config), open_dict(config):
        config.hydra.sweep.dir = str(folder)
        config.hydra.overrides.hydra += [
            f"hydra.sweep.dir={place}",
            f"hydra.job.config.override_dirname.exclude_keys={unnamed}",
        ]
    with ExitStack() as held:
        held.enter_context(claim(folder, f"another sweep is writing to {short(folder)}"))
        for error in folder.rglob(ERROR):
            error.unlink()
        print(f"{total:,} {'job' if total == 1 else 'jobs'} in {short(folder)}", flush=True)
        return _Sweep(folder, _finished(folder), figures, held.pop_all())


def _finish_sweep(sweep: _Sweep) -> int:
    """Shows the finished jobs, without earlier results of failed jobs, and counts the failed."""
    sweep.held.close()
    folder, screen = sweep.folder, console()
    failed = sorted(folder.rglob(ERROR))
    errors = {str(file.parent): file.read_text("utf-8").splitlines()[-1] for file in failed}
    finished = {run: time for run, time in _finished(folder).items() if run not in errors}
    if finished:
        runs = read_runs([*map(Path, finished)])
        write(pooled(tidy(runs), each=True), folder / RESULTS)
        settings = pool(runs)
        screen.print(overview(settings))
        if sentence := finding(settings):
            screen.print(fill(sentence, 80), highlight=False)
    skipped = len(finished.items() & sweep.before.items())
    counts = {"finished": len(finished) - skipped, "skipped": skipped, "failed": len(errors)}
    totals = ", ".join(f"{number:,} {outcome}" for outcome, number in counts.items() if number)
    screen.print(f"All jobs: {totals}", highlight=False)
    for error, number in Counter(errors.values()).items():
        first = os.path.relpath(next(job for job in errors if errors[job] == error), folder)
        jobs = first if number == 1 else f"{number:,} jobs, as {first}"
        screen.print(f"failed  {jobs}: {error}", soft_wrap=True, highlight=False)
    screen.print(named("results", short(folder / RESULTS if finished else folder)), soft_wrap=True)
    if finished and sweep.figures:
        print_files(draw([*map(Path, finished)], within(folder, SUBFOLDER), sweep.figures))
    return len(errors)


def _finished(folder: Path) -> dict[str, int]:
    return {run: (Path(run) / SUMMARY).stat().st_mtime_ns for run in finished_below(folder)}

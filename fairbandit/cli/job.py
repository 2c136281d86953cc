"""The Hydra application, and the function that runs one job, in the main process or a worker."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from fairbandit.cli.messages import in_a_line, one_message, short
from fairbandit.cli.parsers import as_setting, quoted
from fairbandit.cli.store import plain_config, publish, register_resolvers
from fairbandit.cli.sweeps import drives_sweep, failed_jobs, finish_sweep
from fairbandit.errors import FULL_ERROR, PREFIX, FairbanditError, printable
from fairbandit.files.files import fresh, within, written_aside
from fairbandit.policy.build import conf_folder
from fairbandit.registry.plugins import load_plugins
from fairbandit.runs import Run, pool
from fairbandit.runs.execute import execute
from fairbandit.runs.folder import ERROR, REFUSED, OccupiedError
from fairbandit.runs.overview import overview
from fairbandit.runs.sheets import console, named, spread

_WITH_VALUES = ("--config-", "--cfg", "--package", "--info", "--experimental-")  # flags of Hydra

register_resolvers()  # in a worker, unpickling `run_job` imports this module


def run_app(words: Sequence[str]) -> None:
    """Runs the Hydra application with overrides and flags: one job, or a sweep of them.

    Raises:
        FairbanditError: an error that the user can correct, which includes Hydra's errors of
            composition. With HYDRA_FULL_ERROR=1 Hydra's errors are raised unchanged.
    """
    publish()
    application = hydra.main(
        version_base="1.3", config_path=str(conf_folder()), config_name="config"
    )(run_job)
    try:
        with _given_to_hydra(words):
            application()
    except (KeyboardInterrupt, FairbanditError) as error:
        if isinstance(error, KeyboardInterrupt) or not failed_jobs():  # the config of all is wrong
            finish_sweep(results=False)
            raise
    finally:
        failed = finish_sweep()
    if failed:
        raise FairbanditError(
            f"{failed:,} job{'s' * (failed > 1)} of this sweep failed; the same command skips "
            "finished jobs and tries the others again"
        )


@contextmanager
def _given_to_hydra(words: Sequence[str]) -> Iterator[None]:
    argv, full_error = sys.argv, os.environ.get(FULL_ERROR, "")
    ordered = sorted(words, key=lambda word: word not in ("-m", "--multirun"))  # first for argparse
    for word in words:
        if word.startswith("--") and "=" in word and not word.startswith(_WITH_VALUES):
            raise FairbanditError(f"unrecognized arguments: {word}; {as_setting(word)}")
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
    shown = console()
    shown.print(overview(pool([Run(folder, summary)])))
    shown.print(named("results", f"{again}{short(folder)}"), soft_wrap=True)


def _run_in_sweep(config: DictConfig, folder: Path, job: str) -> None:
    try:
        summary, again = _execute_job(config, folder, job)
    except Exception as error:
        known = isinstance(error, (FairbanditError, OmegaConfBaseException, OSError))
        message = one_message(error) if known else in_a_line(error)
        print(printable(f"{PREFIX}{job}{message}"), file=sys.stderr, flush=True)
        name = REFUSED if isinstance(error, OccupiedError) else ERROR
        with written_aside(folder / name) as file:
            file.write(f"{message if known else traceback.format_exc().rstrip()}\n".encode())
        raise FairbanditError(f"{job}{message}") from None
    regret = summary["metrics"]["fair_regret"]
    result = "" if regret["mean"] is None else f"fair regret {spread(regret)}, "
    print(f"{job}{again}{result}{summary['seconds']:.2f} s", flush=True)


def _execute_job(config: DictConfig, folder: Path, job: str) -> tuple[dict[str, Any], str]:
    again = "already finished: "

    def started(news: str) -> None:
        nonlocal again
        again = ""
        for name in (ERROR, REFUSED):
            (folder / name).unlink(missing_ok=True)
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
    del plain["figures"], plain["callbacks"]  # figures are drawn when a sweep ends
    if job:
        plain["resume"] = True  # with resume=false, the sweep already has a new folder
    try:
        callbacks = hydra.utils.instantiate(config.callbacks) or []
    except HydraException as error:
        raise FairbanditError(one_message(error)) from error
    summary = execute(
        plain,
        folder,
        wait=bool(job),
        started=started,
        progress=drives_sweep() or not job,
        callbacks=callbacks,
    )
    return summary, again

"""Carries out one job, a composed config, in the main process or in a worker."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from fairbandit.cli.configs import plain_config, tunes
from fairbandit.cli.messages import SweepJobError, memory_errors, one_message, plain_remarks, short
from fairbandit.cli.names import check_output
from fairbandit.cli.store import register_resolvers
from fairbandit.cli.sweeps import drives_sweep, figures_asked, forget_error, note_error
from fairbandit.errors import PREFIX, FairbanditError
from fairbandit.plugins import load_plugins
from fairbandit.run.execute import execute
from fairbandit.run.folder import StorageError, fresh
from fairbandit.run.table import console, named, run_table

_SECONDS = 0.5  # between two looks at the driver
_watching: list[threading.Thread] = []

register_resolvers()  # in a worker, unpickling `run_job` imports this module


def run_job(config: DictConfig) -> None:
    """Carries out a job in its Hydra folder.

    Args:
        config: the composed config, without Hydra's own node.

    Raises:
        SystemExit: in a single run, an error that the user can mend; in a sweep, that nothing can
            be written any more.
        SweepJobError: in a sweep, an error that could not be noted in the job's folder, for the
            table at the sweep's end; in a sweep that tunes any error, which the sweeper must see.
    """
    hydra = HydraConfig.get()
    folder = Path(hydra.runtime.output_dir)
    with plain_remarks():
        if hydra.mode != RunMode.MULTIRUN:
            _run_alone(config, folder)
            return
        if Path(hydra.sweep.dir).resolve() not in folder.resolve().parents:
            _stop(f"hydra.sweep.subdir must name a folder in {hydra.sweep.dir}, got {folder}")
        _run_in_sweep(config, folder)


def _run_alone(config: DictConfig, folder: Path) -> None:
    how = ["already finished: "]

    def started(where: str) -> None:
        how[:] = []
        if where:
            print(f"going on at {where}", file=sys.stderr, flush=True)
        _save_config(config, folder)

    try:
        load_plugins()
        check_output("hydra.run.dir", HydraConfig.get().run.dir)
        plain = _settings(config)
        if not plain["resume"]:
            folder = fresh(folder)
        with memory_errors():
            summary = execute(plain, folder, started=started, replaced=_replaced)
    except (FairbanditError, OSError) as error:
        raise SystemExit(f"{PREFIX}{one_message(error)}") from None
    shown = console()
    shown.print(run_table(summary))
    shown.print(named("results", f"{''.join(how)}{short(folder)}"), soft_wrap=True)


def _run_in_sweep(config: DictConfig, folder: Path) -> None:
    def started(where: str) -> None:
        forget_error(folder)
        _save_config(config, folder)

    try:
        if not drives_sweep():
            load_plugins()  # a worker on another host has not loaded them
        _end_with_driver()
        plain = _settings(config)
        with memory_errors():
            execute(
                {**plain, "resume": True},  # with false, the sweep's folder is new
                folder,
                wait=True,
                started=started,
                replaced=_replaced,
                progress=drives_sweep(),
            )
    except StorageError as error:
        _fail(str(error), folder, stop=True)
    except (FairbanditError, OSError) as error:
        _fail(one_message(error), folder)
    except Exception as error:
        _fail(f"{type(error).__name__}: {error}", folder, traceback.format_exc())


def _fail(message: str, folder: Path, text: str = "", *, stop: bool = False) -> None:
    """Writes the error to the job's folder, for the sweep's table; the other jobs go on.

    Args:
        message: the error in short.
        folder: the job's.
        text: the error at length.
        stop: whether other jobs would fail too; the sweep also ends if the folder takes no file.

    Raises:
        SystemExit, SweepJobError: see `run_job`.
    """
    if (stop and drives_sweep()) or not note_error(folder, text or message):
        _stop(message)
    if tunes(HydraConfig.get()):
        raise SweepJobError(_of_job(message))
    if not stop:  # a full disk fails every worker, and the driver's table says so
        print(f"{PREFIX}{_of_job(message)}", file=sys.stderr, flush=True)


def _stop(message: str) -> NoReturn:
    """Ends a sweep with the error of a job, which cannot be left in the job's folder."""
    if drives_sweep():
        raise SystemExit(f"{PREFIX}{_of_job(message)}")
    raise SweepJobError(_of_job(message))  # the driver will say it


def _replaced(why: str) -> None:
    print(_of_job(f"played again: {why}"), file=sys.stderr, flush=True)


def _of_job(message: str) -> str:
    """Names the job that a message is about, in a sweep."""
    hydra = HydraConfig.get()
    if hydra.mode != RunMode.MULTIRUN:
        return message
    return f"job {hydra.job.num} ({hydra.job.override_dirname}): {message}"


def _settings(config: DictConfig) -> dict[str, Any]:
    """Returns the run's config as plain data. The figures belong to the sweep; they are checked."""
    plain = plain_config(config)
    figures_asked(plain.pop("figures"))
    return plain


def _save_config(config: DictConfig, folder: Path) -> None:
    """Saves what Hydra would save before the job, once the folder is known to be the job's."""
    saved = folder / ".hydra"
    saved.mkdir(exist_ok=True)
    OmegaConf.save(config, saved / "config.yaml")
    OmegaConf.save(HydraConfig.instance().cfg, saved / "hydra.yaml")  # the node `hydra` alone
    OmegaConf.save(HydraConfig.get().overrides.task, saved / "overrides.yaml")


def _end_with_driver() -> None:
    """Makes a joblib worker end soon after its driver was killed.

    Otherwise the worker would finish its job and then keep its memory while it waits, forever if
    the driver was killed in the middle of a message. The worker's run resumes from its checkpoint
    when the same command is given again. In any other process this function does nothing.
    """
    driver = multiprocessing.parent_process()
    worker = multiprocessing.current_process().name.startswith("LokyProcess")
    if not _watching and worker and driver is not None:
        thread = threading.Thread(target=_watch, args=(driver.pid,), daemon=True)
        _watching.append(thread)
        thread.start()


def _watch(driver: int | None) -> None:
    while os.getppid() == driver:
        time.sleep(_SECONDS)
    os._exit(1)

"""One job: from a composed config to a finished run, in the main process or in a worker."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue

from fairbandit.cli.callbacks import drives_sweep
from fairbandit.cli.main import MARK
from fairbandit.cli.messages import SweepJobError, one_message, short
from fairbandit.cli.outcomes import forget_error, note_error
from fairbandit.cli.store import register_resolvers
from fairbandit.cli.workers import end_with_driver
from fairbandit.errors import FairbanditError
from fairbandit.plugins import load_plugins
from fairbandit.run.execute import execute
from fairbandit.run.folder import StorageError, fresh
from fairbandit.run.table import console, named, run_table

register_resolvers()  # in a worker, unpickling `run_job` imports this module


def run_job(config: DictConfig) -> None:
    """Carries out a job in its Hydra folder.

    Args:
        config: the composed config, without Hydra's own node.

    Raises:
        SystemExit: in a single run, an error that the user can mend; in a sweep, that nothing can
            be written any more.
        SweepJobError: in a sweep, an error that could not be noted in the job's folder, for the
            table at the sweep's end.
    """
    hydra = HydraConfig.get()
    folder = Path(hydra.runtime.output_dir)
    if hydra.mode == RunMode.MULTIRUN:
        _run_in_sweep(config, folder)
    else:
        _run_alone(config, folder)


def _run_alone(config: DictConfig, folder: Path) -> None:
    how = ["already finished: "]

    def started(where: str) -> None:
        how[:] = []
        if where:
            print(f"going on at {where}", file=sys.stderr, flush=True)
        _save_config(config, folder)

    def replaced(why: str) -> None:
        print(f"played again: {why}", file=sys.stderr, flush=True)

    try:
        load_plugins()
        plain = _plain(config)
        if not config.resume:
            folder = fresh(folder)
        summary = execute(plain, folder, started=started, replaced=replaced)
    except (FairbanditError, OSError) as error:
        raise SystemExit(f"{MARK}{one_message(error)}") from None
    shown = console()
    shown.print(run_table(summary))
    shown.print(named("results", f"{''.join(how)}{short(folder)}"), soft_wrap=True)


def _run_in_sweep(config: DictConfig, folder: Path) -> None:
    def started(where: str) -> None:
        forget_error(folder)
        _save_config(config, folder)

    def replaced(why: str) -> None:
        print(f"{_job()} is played again: {why}", file=sys.stderr, flush=True)

    try:
        load_plugins()  # a worker on another host has not loaded them
        # with resume=false it is the sweep whose folder is new
        end_with_driver()
        plain = {**_plain(config), "resume": True}
        execute(
            plain,
            folder,
            wait=True,
            started=started,
            replaced=replaced,
            progress=drives_sweep(),
        )
    except StorageError as error:
        _fail(str(error), folder, stop=True)
    except (FairbanditError, OSError) as error:
        _fail(one_message(error), folder)
    except Exception as error:
        _fail(f"{type(error).__name__}: {error}", folder, traceback.format_exc())


def _fail(message: str, folder: Path, text: str = "", *, stop: bool = False) -> None:
    """Leaves the error in the job's folder for the sweep's table; the other jobs go on.

    Args:
        message: the error in short.
        folder: the job's.
        text: the error at length.
        stop: there is no use in going on with other jobs; nor is there if the error cannot even
            be written to the folder.
    """
    line = f"{_job()}: {message}"
    noted = not (stop and drives_sweep()) and note_error(folder, text or message)
    if not noted and drives_sweep():
        raise SystemExit(f"{MARK}{line}")
    if not noted:  # the driver will say it
        raise SweepJobError(line)
    if not stop:  # of many workers with one full disk, the driver's table tells
        print(f"{MARK}{line}", file=sys.stderr, flush=True)


def _job() -> str:
    """What messages call the job of a sweep."""
    hydra = HydraConfig.get()
    return f"job {hydra.job.num} ({hydra.job.override_dirname})"


def _plain(config: DictConfig) -> dict[str, Any]:
    try:
        plain = OmegaConf.to_container(
            config, resolve=True, throw_on_missing=True, enum_to_str=True
        )
    except MissingMandatoryValue as error:
        raise FairbanditError(f"{error.full_key} must be given: it has no default") from None
    assert isinstance(plain, dict)
    _refuse_targets(plain)
    return {str(key): value for key, value in plain.items() if key != "figures"}


def _refuse_targets(value: Any, path: str = "") -> None:
    """No config can run code: parts have registered names, never import paths."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        here = f"{path}.{key}".lstrip(".")
        if key == "_target_":
            raise FairbanditError(
                f"{here}: a config names registered parts and cannot name an import path; "
                "register the class in a plugin instead"
            )
        if isinstance(item, (dict, list)):
            _refuse_targets(item, here)


def _save_config(config: DictConfig, folder: Path) -> None:
    """What Hydra would save before the job, saved once the folder is known to be the job's."""
    saved = folder / ".hydra"
    saved.mkdir(exist_ok=True)
    hydra = HydraConfig.get()
    OmegaConf.save(config, saved / "config.yaml")
    OmegaConf.save(OmegaConf.create({"hydra": hydra}), saved / "hydra.yaml")
    OmegaConf.save(hydra.overrides.task, saved / "overrides.yaml")

"""One job: from a composed config to a finished run, in the main process or in a worker."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue

from fairbandit.cli.main import MARK
from fairbandit.cli.messages import SweepJobError, one_message
from fairbandit.cli.store import register_resolvers
from fairbandit.errors import FairbanditError
from fairbandit.plugins import load_plugins
from fairbandit.run.execute import execute
from fairbandit.run.folder import refuse_finished
from fairbandit.run.table import console, run_table

register_resolvers()  # in a worker, unpickling `run_job` imports this module


def run_job(config: DictConfig) -> None:
    """Carries out a job in its Hydra folder.

    Args:
        config: the composed config, without Hydra's own node.

    Raises:
        SystemExit: in a single run, an error that the user can mend.
        SweepJobError: the same in a sweep, whose other jobs go on.
    """
    hydra = HydraConfig.get()
    single = hydra.mode != RunMode.MULTIRUN
    try:
        load_plugins()  # a worker on another host has not loaded them
        plain = _plain(config)
        folder = Path(hydra.runtime.output_dir)
        refuse_finished(folder)
        _save_config(config, folder)
        summary = execute(plain, folder)
    except (FairbanditError, OSError) as error:
        if single:
            raise SystemExit(f"{MARK}{one_message(error)}") from None
        message = f"job {hydra.job.num} ({hydra.job.override_dirname}): {one_message(error)}"
        print(f"{MARK}{message}", file=sys.stderr, flush=True)
        raise SweepJobError(message) from None
    if single:
        shown = console()
        shown.print(run_table(summary))
        shown.print(f"[bold]results[/bold]  {_short(folder)}", highlight=False, soft_wrap=True)


def _plain(config: DictConfig) -> dict[str, Any]:
    try:
        plain = OmegaConf.to_container(
            config, resolve=True, throw_on_missing=True, enum_to_str=True
        )
    except MissingMandatoryValue as error:
        raise FairbanditError(f"{error.full_key} must be given: it has no default") from None
    assert isinstance(plain, dict)
    _refuse_targets(plain)
    return {str(key): value for key, value in plain.items()}


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
    """What Hydra would save before the job, saved once the folder is known to be free."""
    saved = folder / ".hydra"
    saved.mkdir(exist_ok=True)
    hydra = HydraConfig.get()
    OmegaConf.save(config, saved / "config.yaml")
    OmegaConf.save(OmegaConf.create({"hydra": hydra}), saved / "hydra.yaml")
    OmegaConf.save(hydra.overrides.task, saved / "overrides.yaml")


def _short(folder: Path) -> Path:
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder

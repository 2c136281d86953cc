"""Errors as one message: what was expected, what came, and the valid choices."""

from __future__ import annotations

import traceback
from pathlib import Path

import hydra
from hydra.errors import CompactHydraException, MissingConfigException
from omegaconf import DictConfig
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from fairbandit.errors import FairbanditError

_UNKNOWN_KEY = (ConfigAttributeError, ConfigKeyError)


LAUNCHERS = {
    "joblib": "joblib",
    "ray": "ray",
    "ray_aws": "ray",
    "ray_cluster": "ray",
    "slurm": "slurm",
    "submitit_local": "slurm",
    "submitit_slurm": "slurm",
}
"""Launchers that are no part of Hydra, with the extra of fairbandit that installs each."""


class SweepJobError(FairbanditError):
    """A job of a sweep failed and has said why; the others went on."""


def one_message(error: BaseException) -> str:
    """The message of an error that the user can mend."""
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, option = str(error.missing_cfg_file).rpartition("/")
        if group == "hydra/launcher" and option in LAUNCHERS:
            return _not_installed(option)
        if error.options:
            return f"unknown {group} {option!r}; the valid ones are {', '.join(error.options)}"
    if isinstance(error, CompactHydraException):
        cause = error.__cause__
        if isinstance(cause, OmegaConfBaseException):
            return _of_omegaconf(cause)
        return " ".join(str(error).split())
    if isinstance(error, OmegaConfBaseException):
        return _of_omegaconf(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def raised_by_hydra(error: BaseException) -> bool:
    """Whether Hydra itself raised the error, as it does for words that make no sense to it."""
    frames = traceback.extract_tb(error.__traceback__)
    return Path(frames[-1].filename).is_relative_to(Path(hydra.__file__).parent)


def _not_installed(launcher: str) -> str:
    extra = LAUNCHERS[launcher]
    return (
        f"launcher {launcher!r} is not installed; pip install 'fairbandit[{extra}]' installs it "
        f"(in a checkout, pip install -e '.[{extra}]')"
    )


def _of_omegaconf(error: OmegaConfBaseException) -> str:
    text = str(error).splitlines()[0]
    if isinstance(error, _UNKNOWN_KEY) and isinstance(error.parent_node, DictConfig):
        where = (error.full_key or "").rpartition(".")[0] or "the config"
        keys = [str(key) for key in error.parent_node if key not in ("name", "hydra")]
        return f"{where} has no key {str(error.key)!r}; it takes {', '.join(keys) or 'none'}"
    return f"{error.full_key}: {text}" if error.full_key else text


def short(folder: Path) -> Path:
    """A folder as seen from the working directory, if it is in there."""
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder

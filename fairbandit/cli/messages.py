"""Errors as one message: what was expected, what came, and the valid choices."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import hydra
from hydra.errors import CompactHydraException, MissingConfigException
from omegaconf import DictConfig
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

import fairbandit
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
    cause = error.__cause__
    if isinstance(cause, FairbanditError):  # raised by one of our resolvers
        return str(cause)
    if isinstance(error, CompactHydraException):
        if isinstance(cause, OmegaConfBaseException):
            return one_message(cause)
        return " ".join(str(error).split()) or in_a_line(cause or error)
    if isinstance(error, OmegaConfBaseException):
        return _of_omegaconf(error)
    if isinstance(error, FairbanditError):
        return str(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return in_a_line(error)


def in_a_line(error: BaseException) -> str:
    """The kind of an error and the first line of its text."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


def raised_by_hydra(error: BaseException) -> bool:
    """Whether Hydra raised the error over what it was given, rather than our code that it called.

    Hydra has errors of its own and of OmegaConf for most of what it cannot make sense of; for the
    rest it fails in whatever library the words have led it to. Such an error comes from a call of
    Hydra's that did not lead back to this package. A part, a job or a callback that fails has a
    frame of this package within those of Hydra.
    """
    if isinstance(error, (CompactHydraException, OmegaConfBaseException)):
        return True
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    return _deepest(files, hydra) > _deepest(files, fairbandit)


def _deepest(files: Sequence[str], package: ModuleType) -> int:
    """The last frame within a package; -1 if there is none."""
    folder = Path(str(package.__file__)).parent
    return max(
        (at for at, file in enumerate(files) if Path(file).is_relative_to(folder)), default=-1
    )


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

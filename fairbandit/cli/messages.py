"""Turns each error into one message: what was expected, what was given, and what is valid."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import hydra
import torch
from hydra.errors import (
    CompactHydraException,
    MissingConfigException,
    OverrideParseException,
)
from omegaconf import DictConfig
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from fairbandit import registry
from fairbandit.errors import FairbanditError
from fairbandit.plugins import VARIABLE as PLUGINS

_NO_MEMORY = "DefaultCPUAllocator"  # whose only error this is
_PACKAGE = Path(__file__).parents[1]
_HYDRA = Path(hydra.__file__).parent
UNKNOWN_KEY = (ConfigAttributeError, ConfigKeyError)
"""The errors of OmegaConf about a key that a config does not have."""


EXTRAS = {
    "hydra/launcher/joblib": "joblib",
    "hydra/launcher/ray": "ray",
    "hydra/launcher/ray_aws": "ray",
    "hydra/launcher/ray_cluster": "ray",
    "hydra/launcher/slurm": "slurm",
    "hydra/launcher/submitit_local": "slurm",
    "hydra/launcher/submitit_slurm": "slurm",
}
"""Options that are not part of Hydra, with the extra of fairbandit that installs each."""

PACKAGES = {
    "hydra/sweeper/ax": "hydra-ax-sweeper",
    "hydra/sweeper/nevergrad": "hydra-nevergrad-sweeper",
}
"""Options that are not part of Hydra, with the package that installs each."""


class SweepJobError(FairbanditError):
    """A job of a sweep failed and reported why, and the others went on."""


def one_message(error: BaseException) -> str:
    """The message of an error that the user can correct."""
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        missing = str(error.missing_cfg_file)
        group, _, option = missing.rpartition("/")
        absent = f"{group.rpartition('/')[2]} {option!r} is not installed; pip install"
        if missing in EXTRAS:
            extra = EXTRAS[missing]
            return (
                f"{absent} 'fairbandit[{extra}]' installs it (in a checkout, pip install -e "
                f"'.[{extra}]')"
            )
        if missing in PACKAGES:
            return f"{absent} {PACKAGES[missing]} installs it"
        if error.options:
            known = f"unknown {group} {option!r}; the valid ones are {', '.join(error.options)}"
            plugins = f"; those of your own come from plugins/ and the folders in {PLUGINS}"
            return known + plugins * (group.rpartition("/")[2] in registry.KINDS)
    cause = error.__cause__
    if isinstance(error, OverrideParseException):
        return _unreadable(error)
    if isinstance(error, CompactHydraException):
        if isinstance(cause, OmegaConfBaseException):
            return one_message(cause)
        return " ".join(str(error).split()) or in_a_line(cause or error)
    if isinstance(error, OmegaConfBaseException):
        if told := _of_resolver(error):
            return told
        if isinstance(error, UNKNOWN_KEY) and isinstance(error.parent_node, DictConfig):
            return _unknown_key(error, error.parent_node)
        text = str(error).splitlines()[0]
        return f"{error.full_key}: {text}" if error.full_key else text
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, FairbanditError):
        return str(error)
    return " ".join(str(error).split()) if isinstance(error, ValueError) else in_a_line(error)


def in_a_line(error: BaseException) -> str:
    """The type of an error and the first line of its text, or the place where it arose."""
    kind, text = type(error).__name__, str(error).strip().splitlines()
    if text:
        return f"{kind}: {text[0]}"
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{kind} at `{place.line}` ({Path(place.filename).name}:{place.lineno})"


@contextmanager
def memory_errors() -> Iterator[None]:
    """Turns the errors of NumPy and torch about a lack of memory into one message.

    Raises:
        FairbanditError: more memory was asked for than there is.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        text = str(error).partition("\n")[0]
        if not isinstance(error, (MemoryError, torch.OutOfMemoryError)) and _NO_MEMORY not in text:
            raise
        raise FairbanditError(
            f"there is not enough memory: {text}; choose smaller sizes or fewer replicas"
        ) from None


@contextmanager
def plain_remarks() -> Iterator[None]:
    """Writes what the package logs to the standard error, without the marks of Hydra's logging."""
    log, handler = logging.getLogger("fairbandit"), logging.lastResort
    assert handler is not None
    before, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = before


def raised_by_hydra(error: BaseException) -> bool:
    """Whether Hydra raised the error because of its input, rather than this package.

    Hydra raises errors of its own and of OmegaConf for most invalid input. For other input it fails
    in a library that it calls. In the traceback of such an error, Hydra's last frame comes after
    the last frame of this package. If a part, a job or a callback fails, Hydra has called this
    package, whose last frame then comes after Hydra's.
    """
    if isinstance(error, (CompactHydraException, OmegaConfBaseException)):
        return True
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if Path(frame.filename).is_relative_to(_PACKAGE):
            return False
        if Path(frame.filename).is_relative_to(_HYDRA):
            return True
    return False


def _of_resolver(error: OmegaConfBaseException) -> str:
    """The message of a `FairbanditError` that a resolver of ours raised; empty if none did."""
    inner: BaseException | None = error
    while inner is not None and not isinstance(inner, FairbanditError):
        inner = inner.__context__  # OmegaConf drops the cause
    return "" if inner is None else str(inner)


def _unreadable(error: OverrideParseException) -> str:
    """The message for a word that Hydra's grammar cannot read, with the way to quote a text."""
    reason = str(error.message).partition("\n")[0].strip()
    if reason.startswith("Error parsing override"):  # a function of the grammar refused its input
        return " ".join(str(error).split())
    told = "" if reason.startswith("Lexer") else f" ({reason})"  # it would repeat the word
    told = f"{error.override!r} cannot be read{told}; "
    if "{" in error.override:
        told += "keys in other scripts or with signs in them can only stand in a YAML file; "
    return (
        f"{told}a text with one of the signs = : , ( ) [ ] {{ }} needs quotes within those of the "
        "shell, as in 'KEY=\"some (text)\"'"
    )


def _unknown_key(error: OmegaConfBaseException, node: DictConfig) -> str:
    """The message for an unknown key: the valid keys, and the parts of the kind that have it."""
    where = (error.full_key or "").rpartition(".")[0]
    keys = [str(key) for key in node if key not in ("name", "hydra")]
    takes = f"takes {', '.join(keys) or 'none'}"
    kind = where.rpartition(".")[2]
    if kind not in registry.KINDS or "name" not in node:
        return f"{where or 'the config'} has no key {str(error.key)!r}; it {takes}"
    others = registry.having(kind, str(error.key))
    elsewhere = f"; {kind}s that have it: {', '.join(others)}" if others else ""
    return f"{where} has no key {str(error.key)!r}; {node.name!r} {takes}{elsewhere}"


def unfit_key(key: str, group: str, takes: Mapping[str, Sequence[str]]) -> str:
    """The message for a key that not all swept choices of a group have.

    Args:
        key: the key in full, as `policy.rank.alpha`.
        group: the group, as `policy/rank`.
        takes: the keys that each choice has in its place.
    """
    where, _, last = key.rpartition(".")
    kind = where.rpartition(".")[2]
    lacking, having = (
        [
            f"{choice} takes {', '.join(keys) or 'none'}"
            for choice, keys in takes.items()
            if (last in keys) == wanted
        ]
        for wanted in (False, True)
    )
    others = registry.having(kind, last) if kind in registry.KINDS else []
    if having:
        found = f"these have it: {', '.join(having)}; sweep over them in a command of their own"
    else:
        found = f"{kind}s that have it: {', '.join(others) or 'none'}"
    return f"{key} is not a key of every {group} of this sweep: {', '.join(lacking)}; {found}"


def short(folder: Path) -> Path:
    """A folder as seen from the working directory, if it is in there."""
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder

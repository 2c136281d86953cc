"""Turns each error into one message: what was expected, what was given, and what is valid."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    MissingMandatoryValue,
    OmegaConfBaseException,
)

from fairbandit import registry
from fairbandit.errors import FairbanditError

_NO_MEMORY = "DefaultCPUAllocator"  # torch raises a RuntimeError that names it


def one_message(error: BaseException) -> str:
    """Returns the message of an error that the user can correct.

    Hydra's own text stays as it is, unless it does not say which keys are valid.
    """
    cause = error.__cause__ if isinstance(error, HydraException) else error
    if isinstance(cause, ConfigAttributeError | ConfigKeyError) and cause.parent_node is not None:
        return _unknown_key(cause)
    if isinstance(cause, MissingMandatoryValue):
        return f"{cause.full_key} must be given: it has no default"
    if isinstance(cause, OmegaConfBaseException):
        text = str(cause).splitlines()[0]
        return f"{cause.full_key}: {text}" if cause.full_key else text
    if isinstance(error, MissingConfigException):
        return str(error).partition("\nConfig search path")[0].strip()
    if isinstance(error, OverrideParseException):
        return (
            f"{error}\nA text with one of the signs = : , ( ) [ ] {{ }} needs quotes within those "
            "of the shell, as in 'KEY=\"some (text)\"'; in a list, so does one in another script"
        )
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error).strip() or type(error).__name__


def in_a_line(error: BaseException) -> str:
    """Returns the type of an error and the first line of its text."""
    return ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])


def _unknown_key(error: OmegaConfBaseException) -> str:
    """Names the valid keys in place of an unknown one, and the parts of the kind that have it."""
    where = (error.full_key or "").rpartition(".")[0]
    kind = where.rpartition(".")[2]
    keys = ", ".join(str(key) for key in error.parent_node or () if key not in ("name", "hydra"))
    message = f"{where or 'the config'} has no key {str(error.key)!r}; it takes {keys or 'none'}"
    others = registry.having(kind, str(error.key)) if kind in registry.KINDS else []
    if where == "metrics" or where.startswith("hydra."):  # these take further keys, by Hydra's +
        return f"{message}; +{error.full_key}=... adds it"
    if not others:
        return message
    return (
        f"{message}; {kind}s that have it: {', '.join(others)} (where {kind}s are swept, "
        f"++{error.full_key}=... sets it)"
    )


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


def short(folder: Path) -> Path:
    """Returns a folder as seen from the working directory, if it is in there."""
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder

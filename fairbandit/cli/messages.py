"""Messages about errors that the user can correct, and short names of folders."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hydra.errors import HydraException, MissingConfigException
from omegaconf import OmegaConf
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    MissingMandatoryValue,
    OmegaConfBaseException,
)

from fairbandit.environments import Table
from fairbandit.errors import did_you_mean
from fairbandit.registry import PART_KINDS, line_of
from fairbandit.registry.signatures import parameters_of
from fairbandit.runs.settings import dotted


def one_message(error: BaseException) -> str:
    """Returns the message of an error; the message for an unknown key lists the valid keys."""
    cause = error.__cause__ if isinstance(error, HydraException) else error
    if isinstance(cause, ConfigAttributeError | ConfigKeyError) and cause.parent_node is not None:
        where = (cause.full_key or "").rpartition(".")[0] or "the config"
        keys = [str(key) for key in cause.parent_node if key not in ("name", "hydra")]
        parts = [f"policy/{kind}" for kind in PART_KINDS if "policy" in keys]
        root: Any = OmegaConf.to_container(cause.parent_node._get_root())
        elsewhere = [key for key, _ in dotted(root) if not key.startswith("hydra")]
        guess = did_you_mean(cause.full_key, [*elsewhere, *keys, *parts])
        if not guess and str(cause.full_key) in parameters_of(Table):
            guess = f" (a table is played by environment=table environment.{cause.full_key}=...)"
        open_ended = where.partition(".")[0] == "metrics"  # no other mapping takes further keys
        adds = f" (+{cause.full_key}=... adds a key)" if open_ended else ""
        takes = ", ".join(keys) or "none"
        return f"{where} has no key {str(cause.key)!r}{guess}; it takes {takes}{adds}"
    if isinstance(cause, MissingMandatoryValue):
        return f"{cause.full_key}: Missing mandatory value: give {cause.full_key}=..."
    if isinstance(cause, OmegaConfBaseException) and cause.full_key:
        return f"{cause.full_key}: {str(cause).splitlines()[0]}"
    if isinstance(error, MissingConfigException) and error.options:
        guess = did_you_mean(error.missing_cfg_file, error.options)
        message = str(error).splitlines()[0]  # the other lines are one for each option
        return f"{message}{guess}; expected one of {', '.join(error.options)}"
    if (text := str(error).strip()).startswith("Ambiguous value for argument"):
        key, _, values = text.splitlines()[0].partition("'")[2][:-1].partition("=")
        return f"{key}={values}: give -m to play each value; a list is written {key}=[{values}]"
    return text or type(error).__name__


def in_a_line(error: BaseException) -> str:
    """Returns the type of an error, the first line of its text, and the line of a plugin in it."""
    text = ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])
    return f"{text} ({at})" if (at := line_of(error)) else text


def short(folder: Path) -> Path:
    """Returns a path relative to the working directory, if this is shorter."""
    return min(Path(os.path.relpath(folder)), folder, key=lambda path: len(str(path)))

"""Finds the columns that are features: in a mapping, in a YAML file, or in the table itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

from fairbandit.environments.encoding import CATEGORY, Encoding
from fairbandit.environments.inference import codes_of, infer_columns
from fairbandit.environments.reading import Source
from fairbandit.errors import FairbanditError

ENDINGS = (".yaml", ".yml")
"""The endings of a file of columns."""


def columns_file(columns: Any) -> Path | None:
    """The YAML file that `environment.columns` names, if it names one."""
    named = isinstance(columns, str) and columns.lower().endswith(ENDINGS)
    return Path(columns) if named else None


def resolve_columns(
    columns: Any, files: Sequence[Path], taken: Collection[str]
) -> Mapping[str, Any]:
    """The columns that are features, with the codes of each category, as `Encoding` takes them.

    Args:
        columns: a mapping; the path of a YAML file that holds one; or None for all columns but
            those that are taken.
        files: D2 and, where it is another file, D1.
        taken: the columns of the group and of the reward.

    Raises:
        FairbanditError: no such mapping or file, or a table that does not have the columns.
    """
    if columns is None:
        return infer_columns([*map(Source, files)], taken)
    file = columns_file(columns)
    given = _load(file) if file else columns
    try:
        Encoding(given, bias=False)  # checks all but the codes that the table has
    except FairbanditError as error:
        raise FairbanditError(f"{file}: {error}" if file else str(error)) from None
    chosen = [name for name, spec in given.items() if spec == CATEGORY]
    if not chosen:
        return given
    return {**given, **codes_of([*map(Source, files)], chosen)}


def _load(path: Path) -> Any:
    """The content of a YAML file whose keys are names of columns."""
    try:
        loaded = OmegaConf.load(path)
        plain = OmegaConf.to_container(loaded, resolve=False)
    except (OSError, ValueError, YAMLError, OmegaConfBaseException, RecursionError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise FairbanditError(
            f"environment.columns: {path} cannot be read as YAML: {reason}"
        ) from error
    for key in plain if isinstance(plain, dict) else ():
        if not isinstance(key, str) and type(key) is not int:
            raise FairbanditError(
                f"{path}: YAML reads a key as {key!r}, which is no text; put the name of the "
                "column in quotes"
            )
    return plain

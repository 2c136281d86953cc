"""Decides which columns of a table are features.

Columns are chosen by a mapping, by a YAML file, or by what their cells hold.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

from fairbandit.environments.reading import Source
from fairbandit.errors import FairbanditError

CATEGORY = "category"
"""The specification of a category whose codes are the values in the table."""

MOST_CODES = 1_000
"""The most distinct texts of a column that becomes a category without a specification."""

# the reasons why a column is not a feature
CONSTANT = "one value, or none"
OTHER = "neither numbers nor texts that recur"

_DATE = "([0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}.*|[0-9]{1,2}:[0-9]{2}.*)"
_CODE = "([-+]?0[0-9]+)"  # a number with leading zeros, such as 007


def columns_file(columns: Any) -> Path | None:
    """The path in `environment.columns` if it names a YAML file; None otherwise."""
    named = isinstance(columns, str) and columns.lower().endswith((".yaml", ".yml"))
    return Path(columns) if named else None


def chosen_columns(columns: Any) -> Mapping[str, Any] | None:
    """The specification of each column in `environment.columns` or in its file; None for null.

    Raises:
        FairbanditError: there is no such file or mapping, or a specification is not valid.
    """
    if columns is None:
        return None
    file = columns_file(columns)
    given, where = (_load(file), f"{file}: ") if file else (columns, "")
    if not isinstance(given, Mapping) or not given:
        raise FairbanditError(
            f"{where}environment.columns must be a mapping {{column: spec}}, the path of a .yaml "
            f"file that holds one, or null; got {given!r}"
        )
    for name, spec in given.items():
        if not _is_valid(spec):
            raise FairbanditError(
                f"{where}environment.columns.{name}: expected null (a number), {CATEGORY} (the "
                "codes are the values in the table), a list of codes, or {codes: [...], "
                "reference: [...]}; codes are all numbers or all texts (in quotes), and no two of "
                f"them are equal; got {spec!r}"
            )
    return {str(name): spec for name, spec in given.items()}


def codes_and_reference(spec: Any) -> tuple[list[Any], list[Any]]:
    """The codes of a category that become features, and its reference codes; none for a number."""
    if isinstance(spec, Mapping):
        return list(spec["codes"]), list(spec.get("reference", ()))
    return list(spec or ()), []


def _is_valid(spec: Any) -> bool:
    if spec is None or spec == CATEGORY:
        return True
    given = spec if isinstance(spec, Mapping) else {"codes": spec}
    lists = [given.get("codes"), given.get("reference", ())]
    if isinstance(spec, str) or not lists[0] or given.keys() - {"codes", "reference"}:
        return False
    if not all(isinstance(one, Sequence) for one in lists):
        return False
    codes = [*lists[0], *lists[1]]
    kinds = {type(code) for code in codes}
    return (kinds == {str} or kinds <= {int, float}) and len(set(codes)) == len(codes)


def _load(path: Path) -> Any:
    try:
        return OmegaConf.to_container(OmegaConf.load(path), resolve=False)
    except (OSError, ValueError, YAMLError, OmegaConfBaseException, RecursionError) as error:
        raise FairbanditError(
            f"{path} cannot be read as YAML: {' '.join(str(error).split())}"
        ) from error


def resolve_columns(
    source: Source, chosen: Mapping[str, Any] | None, taken: Collection[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The specification of each feature column, with its codes, and why others are left out.

    Args:
        source: the table whose values are codes where none are given.
        chosen: what `chosen_columns` returned. If None, the cells of each column decide: numbers
            and truth values become numbers, texts that recur become categories.
        taken: the columns of the group and of the reward, left out if `chosen` is None.

    Raises:
        FairbanditError: a column has numbers with decimal commas although `decimal` is a point.
    """
    if chosen is not None:
        asked = [name for name, spec in chosen.items() if spec == CATEGORY]
        return {**chosen, **{name: _codes(source, name) for name in asked}}, {}
    judged = {name: _judged(source, name) for name in source.columns if name not in taken}
    columns = {name: spec for name, (spec, reason) in judged.items() if not reason}
    return columns, {name: reason for name, (_, reason) in judged.items() if reason}


def _judged(source: Source, name: str) -> tuple[list[Any] | None, str]:
    """The specification of a column by its cells, and the reason why it is no feature, or ""."""
    if name not in source.frame:
        return None, OTHER
    if not source.fits(name).all() and source.fits(name, ",").all():
        source.numbers(name)  # raises an error that names `decimal`
    codes = _codes(source, name)
    if len(codes) < 2:
        return None, CONSTANT
    if not isinstance(codes[0], str):
        return None, ""
    numbers = (source.fits(name) & ~source.gaps(name)).any() and not _matches(source, name, _CODE)
    recur = len(codes) <= min(MOST_CODES, len(source) / 2)  # twice each, on average
    return (None, OTHER) if numbers or _matches(source, name, _DATE) or not recur else (codes, "")


def _codes(source: Source, name: str) -> list[Any]:
    """The distinct values of a column, sorted; texts if a cell is a text or has leading zeros."""
    if not source.fits(name).all() or _matches(source, name, _CODE):
        return sorted(source.frame[name].dropna().unique())
    values = np.unique(source.numbers(name))
    known = values[~np.isnan(values)].tolist()
    return [int(value) if value.is_integer() else value for value in known]


def _matches(source: Source, name: str, pattern: str) -> bool:
    cells = source.frame[name]
    return cells.dtype != np.float64 and bool(cells.str.fullmatch(pattern).any())

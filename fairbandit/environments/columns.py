"""Decides which columns are features, by a mapping, a YAML file or the cells of the columns."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

from fairbandit.environments.reading import DECIMAL_REMEDY, Source, listed
from fairbandit.errors import FairbanditError

CATEGORY = "category"
"""The specification of a category whose codes are the values in the table."""

MOST_CODES = 1_000
"""The most distinct texts of a column that becomes a category without a specification."""

CHOOSE = (
    "environment.columns chooses the features, as in 'environment.columns={NAME: null, NAME: "
    "category}', or in a YAML file, environment.columns=FILE.yaml; null is a number"
)
"""How features are chosen, for messages."""

# the reasons why a column is not a feature
CONSTANT = "one value, or none"
OTHER = "neither numbers nor texts that recur"
UNNAMED = "no name, or an index"

_SPEC = (
    f"null (a number), {CATEGORY} (the codes are the values in the table), a list of codes, or "
    "{codes: [...], reference: [...]}"
)
_DATE = "([0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}.*|[0-9]{1,2}:[0-9]{2}.*)"
_CODE = "([-+]?0[0-9]+)"  # a number with leading zeros, such as 007
_INDEX = re.compile(r"__index_level_[0-9]+__")  # the index of a table that pandas wrote


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
            f"{where}environment.columns must be a mapping {{column: spec}}, a spec being {_SPEC}, "
            f"or the path of a .yaml file that holds one; null takes the columns of the table; got "
            f"{given!r}"
        )
    for name, spec in given.items():
        if isinstance(name, bool):
            problem = f"YAML reads a key as {name}; put the name of the column in quotes"
            raise FairbanditError(where + problem)
        if problem := _problem(spec):
            raise FairbanditError(f"{where}environment.columns.{name}: {problem}")
    return {str(name): spec for name, spec in given.items()}


def codes_and_reference(spec: Any) -> tuple[list[Any], list[Any]]:
    """The codes of a category that become features, and its reference codes; none for a number."""
    if isinstance(spec, Mapping):
        return list(spec["codes"]), list(spec.get("reference", ()))
    return list(spec or ()), []


def _problem(spec: Any) -> str:
    """What is wrong with a specification; empty if it is valid."""
    if spec is None or spec == CATEGORY:
        return ""
    given = spec if isinstance(spec, Mapping) else {"codes": spec}
    lists = [given.get("codes", ()), given.get("reference", ())]
    valid = all(isinstance(one, Sequence) and not isinstance(one, str) for one in lists)
    if not valid or not lists[0] or given.keys() - {"codes", "reference"}:
        return f"expected {_SPEC}; got {spec!r}"
    codes = [*lists[0], *lists[1]]
    numbers = all(isinstance(code, (int, float)) and not isinstance(code, bool) for code in codes)
    if not numbers and not all(isinstance(code, str) for code in codes):
        return f"codes are all numbers or all texts (put a text in quotes), got {codes}"
    return f"a code stands twice in {codes}" if len(set(codes)) < len(codes) else ""


def _load(path: Path) -> Any:
    try:
        return OmegaConf.to_container(OmegaConf.load(path), resolve=False)
    except (OSError, ValueError, YAMLError, OmegaConfBaseException, RecursionError) as error:
        raise FairbanditError(
            f"{path} cannot be read as YAML: {' '.join(str(error).split())}"
        ) from error


def resolve_columns(
    sources: Sequence[Source], chosen: Mapping[str, Any] | None, taken: Collection[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The specification of each feature column, with its codes, and why others are left out.

    Args:
        sources: D2 and, where it is another file, D1.
        chosen: what `chosen_columns` returned. If None, the cells of each column decide: numbers
            and truth values become numbers, texts that recur become categories.
        taken: the columns of the group and of the reward, left out if `chosen` is None.

    Raises:
        FairbanditError: no column is left, or a column has numbers with decimal commas although
            `decimal` is a point.
    """
    if chosen is not None:
        codes = {name: _codes(sources, name) for name, spec in chosen.items() if spec == CATEGORY}
        return {**chosen, **codes}, {}
    judged = {name: _specified(sources, name) for name in sources[0].columns if name not in taken}
    columns = {name: spec for name, (spec, reason) in judged.items() if not reason}
    left_out = {name: reason for name, (_, reason) in judged.items() if reason}
    if not columns:
        found = listed([f"{name!r} ({reason})" for name, reason in left_out.items()])
        raise FairbanditError(
            f"{sources[0].name}: no column is left to be a feature; beside "
            f"{listed([*map(repr, taken)])} there is {found or 'none'}. {CHOOSE}"
        )
    return columns, left_out


def _specified(sources: Sequence[Source], name: str) -> tuple[list[Any] | None, str]:
    """The specification of a column by its cells, and the reason why it is no feature, or ""."""
    if not name or _INDEX.fullmatch(name):
        return None, UNNAMED
    if not all(name in source.frame for source in sources):
        return None, OTHER
    for source in sources:
        if not source.fits(name).all() and source.fits(name, ",").all():
            cell = source.cells(name)[~source.fits(name)].iloc[0]
            raise source.error(name, None, f"cells are like {cell!r}; {DECIMAL_REMEDY}")
    codes = _codes(sources, name)
    if len(codes) < 2:
        return None, CONSTANT
    if not isinstance(codes[0], str):
        return None, ""
    zeros = any(_matches(source, name, _CODE) for source in sources)
    mixed = any((source.fits(name) & ~source.gaps(name)).any() for source in sources) and not zeros
    dates = any(_matches(source, name, _DATE) for source in sources)
    recur = len(codes) <= min(MOST_CODES, sum(map(len, sources)) / 2)  # twice each, on average
    return (None, OTHER) if mixed or dates or not recur else (codes, "")


def _codes(sources: Sequence[Source], name: str) -> list[Any]:
    """The distinct values of a column, sorted; texts if a cell is a text or has leading zeros."""
    if any(not source.fits(name).all() or _matches(source, name, _CODE) for source in sources):
        every = (source.cells(name).dropna().unique() for source in sources)
        return sorted({str(cell) for cells in every for cell in cells})
    values = np.unique(np.concatenate([source.numbers(name) for source in sources]))
    known = values[~np.isnan(values)].tolist()
    return [int(value) if value.is_integer() else value for value in known]


def _matches(source: Source, name: str, pattern: str) -> bool:
    cells = source.cells(name)
    return cells.dtype != np.float64 and bool(cells.str.fullmatch(pattern).any())

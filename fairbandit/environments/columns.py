"""Decides which columns are features: as chosen in a mapping or a YAML file, or by their cells."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

from fairbandit.environments.reading import (
    DECIMAL_COMMA,
    DECIMAL_REMEDY,
    NUMBER,
    Source,
    canonical,
    is_readable,
    listed,
)
from fairbandit.environments.remarks import remark
from fairbandit.errors import FairbanditError

CATEGORY = "category"
"""The specification of a category whose codes are the values that the table has."""

ENDINGS = (".yaml", ".yml")
"""The endings of a file of columns."""

MOST_CODES = 1_000
"""The largest number of codes of a category that are taken from a table."""

CHOOSE = (
    "environment.columns chooses the features, as in 'environment.columns={NAME: null, NAME: "
    "category}', or in a YAML file, environment.columns=FILE.yaml; null is a number"
)
"""How features are chosen, for messages."""

_SPEC = (
    f"null (a number), {CATEGORY} (the codes are the values in the table), a list of codes, or "
    "{codes: [...], reference: [...]}"
)
_DATE = (
    r"[0-9]{1,4}([-/.])[0-9]{1,2}[-/.][0-9]{1,4}([t ].*)?|(-?[0-9]+ days ?)?[0-9]{1,2}:[0-9]{2}.*"
)
_SPELLINGS = {
    "integer": r"[-+]?(0|[1-9][0-9]{0,14})",
    "code": r"[-+]?[0-9]+",  # zeros in front, or more digits than float64 has
    "decimal": NUMBER,
    "truth": r"true|false",
}
"""How the cells of each kind are spelled; a cell is of the first kind that it fits, or a text."""

_INDEX = re.compile(r"__index_level_[0-9]+__")  # the index of a table that pandas wrote


def columns_file(columns: Any) -> Path | None:
    """The YAML file that `environment.columns` names, if it names one."""
    named = isinstance(columns, str) and columns.lower().endswith(ENDINGS)
    return Path(columns) if named else None


def chosen_columns(columns: Any) -> Mapping[str, Any] | None:
    """The mapping that `environment.columns` is, or that its YAML file holds; None if it is null.

    Raises:
        FairbanditError: there is no such file or mapping, or a column is specified wrongly.
    """
    if columns is None:
        return None
    file = columns_file(columns)
    given = _load(file) if file else columns
    where = f"{file}: " if file else ""
    if not isinstance(given, Mapping) or not given:
        raise FairbanditError(
            f"{where}environment.columns must be a mapping {{column: spec}}, a spec being {_SPEC}, "
            f"or the path of a .yaml file that holds one; null takes the columns of the table; got "
            f"{given!r}"
        )
    for name, spec in given.items():
        if problem := _problem(spec):
            raise FairbanditError(f"{where}environment.columns.{name}: {problem}")
    return {str(name): spec for name, spec in given.items()}


def codes_and_reference(spec: Any) -> tuple[list[Any], list[Any]]:
    """The codes of a category that have a feature each, and those that have none."""
    if isinstance(spec, Mapping):
        return list(spec["codes"]), list(spec.get("reference", ()))
    return list(spec or ()), []


def _problem(spec: Any) -> str:
    """Why a specification is none; empty if it is one."""
    if spec is None or spec == CATEGORY:
        return ""
    given = spec if isinstance(spec, Mapping) else {"codes": spec}
    lists = [given.get("codes", ()), given.get("reference", ())]
    proper = all(isinstance(one, Sequence) and not isinstance(one, str) for one in lists)
    if not proper or not lists[0] or given.keys() - {"codes", "reference"}:
        return f"expected {_SPEC}; got {spec!r}"
    known = [*lists[0], *lists[1]]
    numbers = [isinstance(code, (int, float)) and not isinstance(code, bool) for code in known]
    if not all(numbers) and not all(isinstance(code, str) for code in known):
        return f"codes are all numbers or all texts (put a text in quotes), got {known}"
    if all(numbers) and not all(abs(code) <= 2**53 for code in known):
        return f"a code that is a number must be at most 2**53, got {known}"
    return f"a code stands twice in {known}" if len(set(known)) < len(known) else ""


def _load(path: Path) -> Any:
    """The content of a YAML file whose keys are names of columns."""
    try:
        plain = OmegaConf.to_container(OmegaConf.load(path), resolve=False)
    except (OSError, ValueError, YAMLError, OmegaConfBaseException, RecursionError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise FairbanditError(f"{path} cannot be read as YAML: {reason}") from error
    odd = [key for key in plain if type(key) not in (str, int)] if isinstance(plain, dict) else []
    if odd:
        told = "which is no text; put the name of the column in quotes"
        raise FairbanditError(f"{path}: YAML reads a key as {odd[0]!r}, {told}")
    return plain


@dataclass(frozen=True)
class Contents:
    """What the cells of a column are, in one table or in two.

    Attributes:
        rows: how many rows there are.
        texts: the distinct values that are not missing, as texts, or `MOST_CODES` + 1 of them.
        kinds: the kinds of the cells: keys of `_SPELLINGS`, "date" and "text".
        unreadable: the type of cells that are neither numbers, truth values, dates nor texts.
    """

    rows: int
    texts: frozenset[str]
    kinds: frozenset[str]
    unreadable: str

    @property
    def is_number(self) -> bool:
        """Whether all cells are numbers or truth values."""
        return self.kinds <= {"integer", "decimal", "truth"}

    def codes(self) -> list[Any]:
        """The distinct values, sorted: numbers where all are numbers, and otherwise texts."""
        if not self.kinds <= {"integer", "decimal"}:
            return sorted(self.texts)
        return sorted({_number(text) for text in self.texts})

    def uncodable(self) -> str:
        """Why the values cannot be the codes of a category; empty if they can."""
        if self.unreadable:
            return f"cells of type {self.unreadable}"
        if len(self.texts) > MOST_CODES:
            return f"more than {MOST_CODES:,} texts"
        return "" if self.texts else "no value"

    def unfit(self) -> str:
        """Why the column is no feature unless it is chosen; empty if it is one."""
        if self.is_number and self.texts and not self.unreadable:
            constant = len(set(map(_number, self.texts))) == 1
            return "the same value everywhere" if constant else ""
        if len(self.texts) == 1:
            return "the same value everywhere"
        if self.kinds == {"date"}:
            return "dates or times"
        allowed = {"text", "truth", "code"} | ({"integer"} if "code" in self.kinds else set())
        if not self.unreadable and not self.kinds <= allowed:
            return "numbers or dates beside texts"
        unique = self.texts and 2 * len(self.texts) > self.rows
        own = "a text of its own in most rows, as names have" if unique else ""
        return self.uncodable() or own


def contents(sources: Sequence[Source], column: str) -> Contents:
    """What the cells of a column are in all of the tables together."""
    texts: set[str] = set()
    kinds: set[str] = set()
    for source in sources:
        cells = source.cells(column)
        temporal, floating = pa.types.is_temporal(cells.type), pa.types.is_floating(cells.type)
        if not (is_readable(cells.type) or temporal):
            return Contents(0, frozenset(), frozenset(), str(cells.type))
        cells = pc.drop_null(pc.unique(cells))
        if floating:
            cells = cells.filter(pc.invert(pc.is_nan(cells)))
        texts.update(map(canonical, cells[: MOST_CODES + 1].to_pylist()))
        if temporal or floating:
            kinds.add("date" if temporal else "decimal")
            continue
        spelled = pc.utf8_lower(pc.cast(cells, pa.string()))
        for kind, spelling in {"date": _DATE, **_SPELLINGS, "text": ".*"}.items():
            fits = pc.match_substring_regex(spelled, f"^(?s:{spelling})$")
            kinds.update([kind] if pc.any(fits).as_py() else [])
            spelled = spelled.filter(pc.invert(fits))
            if kind == "date":
                spelled = source.dotted(spelled)
    return Contents(sum(map(len, sources)), frozenset(texts), frozenset(kinds), "")


def resolve_columns(
    sources: Sequence[Source], chosen: Mapping[str, Any] | None, taken: Collection[str]
) -> dict[str, Any]:
    """The columns that are features, with the codes of each category.

    Args:
        sources: D2 and, where it is another file, D1.
        chosen: the columns with their specifications; None for those that `judged_columns` finds.
        taken: the columns of the group and of the reward.

    Raises:
        FairbanditError: a column cannot be a category, or none is left.
    """
    if chosen is not None:
        taken = [name for name, spec in chosen.items() if spec == CATEGORY]
        found = {name: contents(sources, name) for name in taken}
        for name, one in found.items():
            if problem := one.uncodable():
                problem = f"it cannot be a category with its values as codes: {problem}; leave it "
                problem += "out of environment.columns, or list its codes there"
                raise sources[0].error(name, None, problem)
        return {**chosen, **{name: one.codes() for name, one in found.items()}}
    columns, out = judged_columns(sources, taken)
    told = listed([f"{name!r} ({reason})" for name, reason in out.items()])
    if not columns:
        raise FairbanditError(
            f"{sources[0].name}: no column is left to be a feature; beside "
            f"{listed([*map(repr, taken)])} there is {told or 'none'}. {CHOOSE}"
        )
    if told:
        remark(f"{sources[0].name}: these columns are no features: {told}. {CHOOSE}")
    return columns


def judged_columns(
    sources: Sequence[Source], taken: Collection[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The columns of a table that are features by their cells, and why the others are none.

    All columns but those that are taken are judged. Numbers and truth values become numbers, texts
    become categories.

    Raises:
        FairbanditError: the numbers of a column have decimal commas, and `decimal` is a point.
    """
    free = [name for name in dict.fromkeys(sources[0].columns) if name not in taken]
    named = [name for name in free if name and not _INDEX.fullmatch(name)]
    found = {name: contents(sources, name) for name in named}
    for name, one in found.items():
        commas = [text for text in one.texts if "," in text]
        numbers = all(re.fullmatch(DECIMAL_COMMA, text) for text in one.texts)
        if commas and numbers and sources[0].decimal == ".":
            raise sources[0].error(name, None, f"cells are like {min(commas)!r}; {DECIMAL_REMEDY}")
    out = {name: reason for name in named if (reason := found[name].unfit())}
    out |= {name: "no name" if not name else "an index" for name in free if name not in named}
    fit = {name: one for name, one in found.items() if name not in out}
    return {name: None if one.is_number else one.codes() for name, one in fit.items()}, out


def _number(text: str) -> float:
    value = float({"true": 1, "false": 0}.get(text, text.replace(",", ".")))
    return int(value) if value.is_integer() else value

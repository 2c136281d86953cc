"""Decides which columns of a table are features, by choice or by what their cells hold."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

from fairbandit.errors import FairbanditError, did_you_mean, shown, type_of
from fairbandit.notices import listed, remark
from fairbandit.tables import cells
from fairbandit.tables.labels import CODE, look_alikes

if TYPE_CHECKING:
    import pandas as pd  # imported where it is used, since that takes a third of a second

CATEGORY = "category"  # the specification of a category whose codes are the values in the table
MOST_CODES = 1_000  # of texts that become a category without a specification
FEW, SMALL = 5, 30  # members of a group: most groups need FEW, and those below SMALL are noted

# the reasons why a column is not a feature
CONSTANT = "one value, or none"
INDEX = "row numbers that pandas has written"
EXCLUDED = "excluded"
OTHER = "neither numbers nor texts that recur"
DATES = "dates or times; a number made of them, such as a year, is a feature"

_DATE = "([0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}.*|[0-9]{1,2}:[0-9]{2}.*)"


def columns_file(columns: Any) -> Path | None:
    """Returns the path in `environment.columns` if it names a YAML file, else None."""
    named = isinstance(columns, str) and columns.lower().endswith((".yaml", ".yml"))
    return Path(columns) if named else None


def chosen_columns(columns: Any) -> Mapping[str, Any] | None:
    """Returns the specification of each column in `environment.columns` or in its file."""
    if columns is None:
        return None
    specs, where = columns, ""
    if file := columns_file(columns):
        where = f"{file}: "
        try:
            specs = OmegaConf.to_container(OmegaConf.load(file), resolve=False)
        except (OSError, ValueError, YAMLError, OmegaConfBaseException, RecursionError) as error:
            reason = " ".join(str(error).split())
            raise FairbanditError(f"{file} cannot be read as YAML: {reason}") from error
    if not isinstance(specs, Mapping) or not specs:
        raise FairbanditError(
            f"{where}environment.columns must be a mapping {{column: spec}}, the path of a .yaml "
            f"file that holds one, or null; got {specs!r}"
        )
    for name, spec in specs.items():
        if not _is_valid(spec):
            raise FairbanditError(
                f"{where}environment.columns.{name}: expected null (a number), {CATEGORY} (the "
                "codes are the values in the table), a list of codes, or {codes: [...], "
                "reference: [...]}; codes are all numbers or all texts (in quotes) and are "
                f"distinct; got {spec!r}"
            )
    return {str(name): spec for name, spec in specs.items()}


def codes_and_reference(spec: Any) -> tuple[list[Any], list[Any]]:
    """Returns the codes of a category that become features, and its reference codes."""
    if isinstance(spec, Mapping):
        return list(spec["codes"]), list(spec.get("reference", ()))
    return list(spec or ()), []


def _is_valid(spec: Any) -> bool:
    if spec is None or spec == CATEGORY:
        return True
    entries = spec if isinstance(spec, Mapping) else {"codes": spec}
    lists = [entries.get("codes"), entries.get("reference", ())]
    if entries.keys() - {"codes", "reference"} or not lists[0]:
        return False
    if not all(isinstance(part, Sequence) and not isinstance(part, str) for part in lists):
        return False
    codes = [*lists[0], *lists[1]]
    kinds = {*map(type, codes)}
    return (kinds == {str} or kinds <= {int, float}) and len({*codes}) == len(codes)


def resolve_columns(
    table: pd.DataFrame,
    chosen: Mapping[str, Any] | None,
    taken: Collection[str],
    exclude: Sequence[str],
    remedy: str = "",
) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the specification of each feature column, and the reason for each column left out.

    If `chosen` is None, the cells decide on all columns but those `taken` by another role. Columns
    that cannot be features are noted with the `remedy`, if there is one.
    """
    facts = cells.about(table)
    if unknown := [name for name in exclude if name not in facts.columns]:
        guess, names = did_you_mean(unknown[0], facts.columns), [*map(repr, facts.columns)]
        problem = f"exclude: {facts.name} has no column {unknown[0]!r}{guess}"
        raise FairbanditError(f"{problem}; it has {listed(names)}")
    if chosen is not None:
        codes = {name: codes_of(table, name) for name, spec in chosen.items() if spec == CATEGORY}
        specs = {**chosen, **codes}
        return {name: spec for name, spec in specs.items() if name not in exclude}, {}
    judged = {
        name: EXCLUDED if name in exclude else _judged(table, name)
        for name in facts.columns
        if name not in taken
    }
    left_out = {name: reason for name, reason in judged.items() if isinstance(reason, str)}
    unfit = [f"{name!r} ({reason})" for name, reason in left_out.items() if reason != EXCLUDED]
    if unfit and remedy:
        remark(f"{facts.name}: these columns are not features: {listed(unfit)}. {remedy}")
    return {name: spec for name, spec in judged.items() if name not in left_out}, left_out


def group_columns(columns: Any) -> tuple[str, ...]:
    """Returns the columns of the group; an intersectional group has several."""
    names = (columns,) if isinstance(columns, str) else columns
    texts = isinstance(names, Sequence) and all(isinstance(name, str) for name in names)
    if texts and len(set(names)) == len(names) > 0:
        return tuple(names)
    got = f"{shown(columns)}, {type_of(columns)}"
    raise FairbanditError(f"group: expected the name of a column, or a list of names; got {got}")


def check_groups(where: str, sizes: Mapping[str, int]) -> None:
    """Refuses groups of amounts or ids, most of which are tiny, and notes doubtful groups."""
    tiny = sum(size < FEW for size in sizes.values())
    if tiny > max(len(sizes) / 2, 10):
        raise FairbanditError(
            f"{where}: {tiny:,} of {len(sizes):,} groups have fewer than {FEW} members, so that "
            "relative ranks say nothing; expected few labels, as of a number cut into intervals"
        )
    if small := [f"{label!r}: {size}" for label, size in sizes.items() if size < SMALL]:
        remark(f"{where}: relative ranks are coarse in groups of few members: {listed(small)}")
    if odd := look_alikes(sizes):
        remark(f"{where}: labels mix letters of several scripts, which look alike: {listed(odd)}")
    folded = Counter(map(str.casefold, sizes))
    if alike := [repr(label) for label in sizes if folded[label.casefold()] > 1]:
        remark(f"{where}: groups differ in upper and lower case alone: {listed(alike)}")


def _judged(table: pd.DataFrame, name: str) -> list[Any] | str | None:
    """Returns the specification of a column by its cells, or why it is not a feature, a text."""
    reason = cells.about(table).reasons.get(name)
    if name not in table:
        return reason or OTHER
    if reason:
        cells.numbers(table, name)  # raises an error with the remedy
    column = table[name]
    count = column.nunique()
    row_numbers = column.dtype.kind in "iu" and count == len(table)
    if row_numbers and re.fullmatch("Unnamed: [0-9]+", name):
        return INDEX
    if count < 2:
        return CONSTANT
    if cells.is_number(table, name):
        return None
    recur = count <= min(MOST_CODES, len(table) / 2)  # twice each, on average
    if not hasattr(column, "cat"):
        present, numbers = ~cells.gaps(table, name), cells.fits(table, name)
        if (numbers & present).any() and not column.str.fullmatch(CODE).any():
            if not numbers.all():
                text = column.iat[int(numbers.argmin())]
                return f"numbers, except texts such as {text!r}, which missing_values may list"
            where = f"{cells.name_of(table)}, column {name!r}"
            if recur:
                remark(f"{where}: numbers that are texts make a category; convert them")
        elif column.str.fullmatch(_DATE).any():
            return DATES
    return codes_of(table, name) if recur else OTHER


def codes_of(table: pd.DataFrame, name: str) -> list[Any]:
    """Returns the sorted values of a column as the codes of a category."""
    cells.check_exact(table, name)
    values = cells.plain(table, name).dropna().unique().tolist()
    return sorted(int(v) if type(v) in (bool, float) and v == int(v) else v for v in values)

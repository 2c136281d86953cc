"""Decides from the contents of a table's columns which of them are features, and of which kind.

A CSV file holds nothing but texts, so that a column is judged by how its cells are spelled. Cells
of a Parquet file are spelled out first. A table is therefore judged alike in both formats.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fairbandit.environments.reading import Block, Source, is_readable, listed
from fairbandit.environments.remarks import remark
from fairbandit.errors import FairbanditError

MOST_CODES = 1_000
"""The largest number of codes of a category that are taken from a table."""

_TIME = r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?"
_DAY = r"([0-9]{4}(-[0-9]{1,2}-|/[0-9]{1,2}/|[.][0-9]{1,2}[.])[0-9]{1,2}"
_DAY += r"|[0-9]{1,2}(-[0-9]{1,2}-|/[0-9]{1,2}/|[.][0-9]{1,2}[.])[0-9]{4})"
_SPELLINGS = {
    "integer": r"[-+]?(0|[1-9][0-9]{0,14})",
    "decimal": r"(?i)[-+]?(([0-9]+[.][0-9]*|[.][0-9]+)(e[-+]?[0-9]+)?|[0-9]+e[-+]?[0-9]+"
    r"|inf|infinity)",
    "truth": r"true|false",
    "code": r"[-+]?[0-9]+",  # zeros in front, or more digits than float64 has
    "date": rf"{_DAY}([T ]{_TIME} ?(Z|UTC|[-+][0-9]{{2}}:?[0-9]{{2}})?)?|(-?[0-9]+ days ?)?{_TIME}",
}
"""How the cells of each kind are spelled; a cell is of the first kind that it fits, or a text."""

_NUMBER = frozenset({"integer", "decimal"})
_INDEX = re.compile(r"__index_level_[0-9]+__")  # the index of a table that pandas wrote
_CHOOSE = (
    "environment.columns chooses the features, as in 'environment.columns={NAME: null, NAME: "
    "category}', or in a YAML file, environment.columns=FILE.yaml; null is a number"
)


@dataclass
class Contents:
    """What the cells of a column are, gathered block by block.

    Attributes:
        rows: how many rows there are.
        texts: the distinct texts that are not missing, up to one more than `MOST_CODES`.
        kinds: the kinds of the cells: keys of `_SPELLINGS`, and "text".
        unreadable: the type of cells that are neither numbers, truth values, dates nor texts.
    """

    rows: int = 0
    texts: set[str] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)
    unreadable: str = ""

    def add(self, block: Block, column: str) -> None:
        """Takes in the column's cells of a block."""
        kind, texts = block.distinct(column)
        self.rows += len(block)
        if texts is None or not (is_readable(kind) or pa.types.is_temporal(kind)):
            self.unreadable = str(kind)
            return
        if len(self.texts) <= MOST_CODES:
            self.texts.update(texts[: MOST_CODES + 1].to_pylist())
        if pa.types.is_temporal(kind):
            self.kinds.add("date")
            return
        for name, spelling in _SPELLINGS.items():
            fits = pc.match_substring_regex(texts, f"^({spelling})$")
            if pc.any(fits).as_py():
                self.kinds.add(name)
                texts = texts.filter(pc.invert(fits))
        if len(texts):
            self.kinds.add("text")

    @property
    def is_number(self) -> bool:
        """Whether all cells are numbers or truth values."""
        return self.kinds <= _NUMBER | {"truth"}

    def codes(self) -> list[Any]:
        """The distinct values, sorted: numbers where all are numbers, and otherwise texts."""
        if not self.kinds <= _NUMBER:
            return sorted(self.texts)
        return sorted({_number(text) for text in self.texts})

    def unfit(self) -> str:
        """Why the column is no feature unless it is chosen; empty if it is one."""
        if self.unreadable:
            return f"cells of type {self.unreadable}"
        if not self.texts:
            return "no value"
        if len(set(map(_number, self.texts)) if self.is_number else self.texts) == 1:
            return "the same value everywhere"
        if self.kinds == {"date"}:
            return "dates or times"
        if self.is_number:
            return ""
        kinds = self.kinds - {"integer"} if "code" in self.kinds else self.kinds
        if not kinds <= {"text", "truth", "code"}:
            return "numbers or dates beside texts"
        if len(self.texts) > MOST_CODES:
            return f"more than {MOST_CODES:,} texts"
        if 2 * len(self.texts) > self.rows:
            return "a text of its own in most rows, as names have"
        return ""


def infer_columns(sources: Sequence[Source], taken: Collection[str]) -> dict[str, Any]:
    """The columns of a table that are features, as `Encoding` takes them.

    All columns but those that are taken are judged. Numbers and truth values become numbers, texts
    become categories. The columns that are left out are named in a remark.

    Args:
        sources: D2 and, where it is another file, D1.
        taken: the columns of the group and of the reward.

    Raises:
        FairbanditError: a column is missing, or none is left.
    """
    first = sources[0]
    first.require([*taken])
    free = [name for name in dict.fromkeys(first.columns) if name not in taken]
    named = [name for name in free if name and not _INDEX.fullmatch(name)]
    found = contents(sources, named)
    out = {name: reason for name in named if (reason := found[name].unfit())}
    out |= {name: "no name" if not name else "an index" for name in free if name not in named}
    told = listed([f"{name!r} ({reason})" for name, reason in out.items()])
    if len(out) == len(free):
        raise FairbanditError(
            f"{first.path}: no column is left to be a feature; beside "
            f"{listed([*map(repr, taken)])} there is {told or 'none'}. {_CHOOSE}"
        )
    if out:
        remark(f"{first.path}: these columns are no features: {told}. {_CHOOSE}")
    return {
        name: None if one.is_number else one.codes()
        for name, one in found.items()
        if name not in out
    }


def codes_of(sources: Sequence[Source], columns: Collection[str]) -> dict[str, list[Any]]:
    """The codes of columns that are categories by the user's choice, sorted.

    Raises:
        FairbanditError: a column is missing, has no value, has too many, or cannot be a category.
    """
    found = contents(sources, [*columns])
    for name, one in found.items():
        problem = f"the cells are of type {one.unreadable}" if one.unreadable else ""
        if len(one.texts) > MOST_CODES:
            problem = f"it has more than {MOST_CODES:,} distinct values"
        if problem or not one.texts:
            raise FairbanditError(
                f"{sources[0].path}, column {name!r}: it cannot be a category with its values as "
                f"codes: {problem or 'it has no value'}; leave it out of environment.columns, or "
                "list its codes there"
            )
    return {name: one.codes() for name, one in found.items()}


def contents(sources: Sequence[Source], columns: Sequence[str]) -> dict[str, Contents]:
    """What the columns hold in all of the tables together."""
    found = {name: Contents() for name in columns}
    for source in sources:
        for block in source.blocks(columns):
            for name, one in found.items():
                one.add(block, name)
    return found


def _number(text: str) -> float:
    value = float({"true": 1, "false": 0}.get(text, text))
    return int(value) if value.is_integer() else value

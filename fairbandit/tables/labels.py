"""Labels of groups, which agents, logs, tables and truths compare by their normal forms."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from enum import Enum
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any, NamedTuple
from unicodedata import name, normalize

import numpy as np
from numpy.typing import NDArray

from fairbandit.errors import FairbanditError

NUMBER = r"(?i:[-+]?(?:[0-9]+[.]?[0-9]*|[.][0-9]+)(?:e[-+]?[0-9]+)?)"  # a regular expression
CODE = "[-+]?0[0-9]+"  # a code in digits that is not a number, such as 007
JOINED = " × "  # between the labels of an intersectional group
UNKNOWN = "unknown"  # the label of people whose group is missing
UNSAID = frozenset(["", UNKNOWN])  # the words for a missing label, in lower case

INVISIBLE = "\u00ad\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\ufeff"
"""The signs without a shape that are removed from texts. Joiners, which Persian needs, stay."""

TRUTH = {"true": "1", "false": "0"}
"""The normal forms of truth values, and the numbers that they are beside labels 0 and 1."""

_CODED_AS_TEXT = {str, np.str_, int, np.int64}
_REMOVED = dict.fromkeys(map(ord, INVISIBLE))


class Group(NamedTuple):
    """A known group: its number, and its first spelling."""

    code: int
    spelling: Hashable


class Codes(dict[str, Group]):
    """The known groups by the normal forms of their labels, and the words for unknown groups."""

    def __init__(
        self, groups: Mapping[str, Group] | None = None, words: frozenset[str] = UNSAID
    ) -> None:
        super().__init__(groups or {})
        self.words = words

    @cached_property
    def spellings(self) -> tuple[Hashable, ...]:
        """The first spelling of each group, in the order of their numbers."""
        return tuple(group.spelling for group in self.values())


def normal(label: Any) -> str:
    """Returns the normal form of a label, a text.

    All spellings of a number or truth value are one label, but `01` is a code. So are the Unicode
    forms of a text. The labels of an intersectional group, in a tuple or a list, are joined.

    >>> normal(1), normal("01"), normal(True), normal(("f", 2.0))
    ('1', '01', 'true', 'f × 2')
    """
    if type(label) is int:
        return str(label)
    if isinstance(label, (tuple, list)) and label:
        return JOINED.join(map(normal, label))
    label = _item(label)
    if isinstance(label, Enum) and isinstance(label, (str, int)):
        label = label.value
    return _normal(label if isinstance(label, str) else str(label))


def words_of(words: Iterable[Any]) -> frozenset[str]:
    """Returns the words for a missing label in lower case, with the words of a user."""
    return UNSAID | {normal(word).casefold() for word in words}


def is_missing(label: Any) -> bool:
    """Whether a label is None, NaN, or the missing value of pandas."""
    is_nan = isinstance(label, float) and label != label
    return label is None or is_nan or type(label).__name__ in ("NAType", "NaTType")


def group_label(label: Any, words: Collection[str] = UNSAID) -> Any:
    """Returns the label of a group, or `unknown` if it is missing.

    A missing label is None, NaN or one of `words` in any case.

    >>> [group_label(label, words_of(["n/a"])) for label in (None, "", "N/A ", ("f", None))]
    ['unknown', 'unknown', 'unknown', ('f', 'unknown')]
    """
    if isinstance(label, tuple):
        return tuple(group_label(part, words) for part in label)
    label = _item(label)
    hash(label)  # raises a TypeError if the label is not hashable
    return UNKNOWN if is_missing(label) or normal(label).casefold() in words else label


def is_unknown(label: Any) -> bool:
    """Whether a group is unknown, or a part of an intersectional group."""
    return UNKNOWN in normal(label).split(JOINED)


def clean(text: str) -> str:
    """Returns a text in Unicode's NFC, without invisible signs and without blanks around it."""
    return (text if text.isascii() else normalize("NFC", text.translate(_REMOVED))).strip()


def as_numbers(forms: Sequence[str], known_forms: Collection[str] = ()) -> list[str]:
    """Returns normal forms, in which truth values are 1 and 0 if the labels are such numbers."""
    truth, numbers = {*TRUTH}, {*TRUTH.values()}
    if not truth & {*forms} or truth & {*known_forms} or not numbers & {*forms, *known_forms}:
        return [*forms]
    return [TRUTH.get(form, form) for form in forms]


def look_alikes(texts: Iterable[str]) -> list[str]:
    """Returns the texts that mix Latin with Cyrillic or Greek letters, escaped as ASCII."""
    alike = list[str]()
    for text in texts:
        scripts = {name(sign, "?").split()[0] for sign in text if sign.isalpha()}
        if "LATIN" in scripts and scripts & {"CYRILLIC", "GREEK"}:
            alike.append(ascii(text))
    return alike


@lru_cache(1 << 16)
def _normal(text: str) -> str:
    text = clean(text)
    text.encode()  # raises an error for half of a surrogate pair, which no file can hold
    if text.lower() in TRUTH:
        return text.lower()
    if len(text) > 15 or not re.fullmatch(NUMBER, text) or re.fullmatch(CODE, text):
        return text  # float64 holds 15 digits
    value = float(text)
    return str(int(value)) if value.is_integer() else repr(value)


def coded(labels: Collection[Any], known: Codes) -> tuple[NDArray[np.int64], Codes]:
    """Returns the numbers of labels, and all groups, in which new groups get the next numbers."""
    if {*map(type, labels)} <= _CODED_AS_TEXT:  # most labels of agents are known texts or numbers
        groups = [*map(known.get, map(str, labels))]
        if None not in groups:
            return np.fromiter(map(attrgetter("code"), groups), np.int64, len(groups)), known
    try:
        plain = [_plain(group_label(label, known.words)) for label in labels]
        forms = as_numbers([normal(label) for label in plain], known)
        if not known.keys() >= {*forms}:
            grown = Codes(known, known.words)
            for form, label in zip(forms, plain, strict=True):
                spelling = label if normal(label) == form else int(form)
                grown.setdefault(form, Group(len(grown), spelling))
            known = grown
    except Exception as error:  # a label's own methods may raise any error
        raise FairbanditError(
            f"groups: expected hashable labels that are equal to themselves; {error}"
        ) from error
    return np.array([known[form].code for form in forms], np.int64), known


def pool_codes(pools: Collection[Any]) -> NDArray[np.int64]:
    """Returns the number of the pool of each candidate: equal values of one type are one pool."""
    numbers = dict[Any, int]()
    if gaps := [row for row, pool in enumerate(pools) if is_missing(pool)]:
        raise FairbanditError(f"pools: candidate {gaps[0]} lacks a pool")
    try:
        plain = map(_item, pools)
        codes = [numbers.setdefault((type(pool), pool), len(numbers)) for pool in plain]
    except TypeError as error:
        raise FairbanditError(f"pools: {error}") from error
    return np.array(codes, np.int64)


def check_labels(
    labels: Collection[Any], forms: Iterable[str | None], column: str, words: Iterable[str] = ()
) -> None:
    """Raises an error for a label other than the row's own label, unless this is None."""
    unsaid = words_of(words)
    for at, (label, form) in enumerate(zip(labels, forms, strict=False)):
        if form is None or (type(label) is str and label == form):
            continue
        stated = [*coded([label], Codes({form: Group(0, form)}, unsaid))[1]][-1]
        if stated != form:
            raise FairbanditError(
                f"groups[{at}] is {stated!r}, but column {column!r} of the row says {form!r}"
            )


def _plain(label: Any) -> Any:
    """Returns a label without types of NumPy; it must be hashable, and every part equal itself."""
    label = tuple(map(_plain, label)) if type(label) is tuple else _item(label)
    hash(label)
    if not label == label:
        raise ValueError(f"got {label!r}")
    return label


def _item(label: Any) -> Any:
    is_array = isinstance(label, (type, np.ndarray))  # or a masked label; neither is hashable
    return label.item() if hasattr(label, "item") and not is_array else label

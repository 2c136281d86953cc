"""Hostile values, and files that are damaged or crafted: what the doors are tried with."""

import copy
import datetime
import math
import random
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import torch

FEATURES = 3

NUMBERS: tuple[Any, ...] = (
    *(0, 1, -1, 2.5, -0.0, 5e-324, 1e-160, 1e9, -1e50, 1e100, 1.1e100, 1.7e308),
    *(2**53 + 1, 2**63, 10**30, 10**101, 10**400, math.nan, math.inf, -math.inf),
    *(True, None, "", "1", "nan", b"1", 1j, [], [1.0], (), {}, set(), object(), Ellipsis),
    *(Decimal("1.5"), Decimal("sNaN"), Decimal("Infinity"), Fraction(1, 3)),
    *(np.float16(1.5), np.longdouble("1.5"), np.int8(-3), np.uint64(2**64 - 1), np.bool_(True)),
    *(np.datetime64("NaT", "s"), np.timedelta64(1, "s"), np.str_("3"), np.ma.masked),
    *(pd.NA, pd.NaT, pd.Timestamp(0), datetime.date(2020, 1, 1)),
    *(torch.tensor(1.5), torch.tensor([1.5]), torch.tensor([1.0, 2.0]), torch.tensor(math.nan)),
    *(np.array(2.0), np.array([2.0]), np.array([]), np.array([[1.0]])),
)

LABELS: tuple[Any, ...] = (
    *("a", "b", "c", "", "new", "[red]", "a, b", "a\nb", "\x00", "ü" * 50, 0, 1, 1.0, True, None),
    *(math.nan, (math.nan,), ("a", (1, math.nan)), (1, "x"), (), frozenset({1}), b"raw", -0.0),
    *(np.datetime64("NaT", "s"), np.datetime64("2020-01-01"), pd.NaT, pd.NA, Decimal("NaN")),
    *(10**30, Decimal("1.5"), Fraction(1, 2), 1j, complex(math.nan, 0), float("inf"), range(2)),
    *(object(), int, [], ["a"], {}, set(), np.array(["a"]), torch.zeros(2), torch.tensor(1)),
    *(np.float64("nan"), np.int64(1), np.str_("a"), np.ma.masked, slice(1)),
)

TEXTS = (
    *("", " ", "NA", "nan", "null", "None", "#N/A", "-", "?", "true", "False", "inf", "1e400"),
    *("1e308", "-1e308", "1e-320", "0x10", "1_000", "1,5", "１２", "−3", " 3", "3\t", "+3", "03"),
    *(".5", "1E+05", "e5", "--1", "1.2.3", "1 2", "9007199254740993", "1" * 30, "-0", "1d"),
    *("[red]", "a,b", 'a"b', "a\nb", "a;b", "ü", "\x00", "\u202e", "x" * 500, "=1+1", "1%"),
    *("[]", "{}", "[1,2]", "{a:1}", "${seed}", "${nope}", "${oc.env:NOPE}", "???", "a=b", "1,2"),
    *("range(3)", "choice(1,2)", "glob(x*)", "../x", "/dev/null/x", "~", ".", "'", "\\", "@", "$"),
    *("policy", "_target_", "os.system", "cuda:99", "meta", "--help", "10000000000000000000000"),
)
"""Cells of tables, and values of config keys."""


def pools() -> tuple[Any, ...]:
    """Contexts of unusual kinds; each call makes them anew, since some can be read once."""
    ones = np.ones((2, FEATURES))
    return (
        *(None, [], [[]], "abc", {"a": 1}, {1, 2}, iter([[1.0, 2.0, 3.0]]), b"\x00" * 24, 1.0),
        *([[1.0, 2.0, 3.0], [1.0]], [1.0, 2.0, 3.0], [[1.0, 2.0, None]], ones.data),
        *(np.zeros((0, FEATURES)), np.zeros((2, 0)), np.zeros((2, FEATURES, 1))),
        *(np.zeros((FEATURES, 2)).T[:, ::-1], np.broadcast_to(np.ones(FEATURES), (2, FEATURES))),
        *(ones.astype(kind) for kind in (np.float16, complex, bool, object, str, "M8[s]")),
        *(ones * np.longdouble("1e100"), np.zeros(2, dtype=[("x", float), ("y", int)])),
        *(np.ma.masked_array(ones, mask=np.eye(2, FEATURES) > 0), np.ma.masked_array(ones)),
        *(torch.ones(2, FEATURES, dtype=kind) for kind in (torch.bfloat16, torch.complex64)),
        *(torch.ones(2, FEATURES, device="meta"), torch.ones(2, FEATURES, requires_grad=True)),
        *(torch.eye(FEATURES).to_sparse(), [torch.ones(FEATURES)] * 2, pd.DataFrame(ones)),
        *(torch.nested.nested_tensor([torch.ones(FEATURES)]), torch.eye(FEATURES).to_sparse_csr()),
    )


def damaged(draw: random.Random, content: bytes) -> bytes:
    """The bytes with a flipped bit, cut, or with a piece overwritten, doubled or taken out."""
    at = draw.randrange(len(content))
    width = min(draw.choice([1, 8, 100]), len(content) - at)
    before, piece, after = content[:at], content[at : at + width], content[at + width :]
    flipped = bytes([content[at] ^ 1 << draw.randrange(8)])
    return draw.choice(
        [
            before + flipped + content[at + 1 :],
            before,
            before + bytes(width) + after,
            before + draw.randbytes(width) + after,
            before + piece + content[at:],
            before + after,
            b"",
            content + draw.randbytes(width),
        ]
    )


def crafted(draw: random.Random, content: Any) -> Any:
    """The nested data with one place changed."""
    content = copy.deepcopy(content)
    places = list(_places(content))
    holder, key = draw.choice(places)
    value, how = (
        holder[key],
        draw.choice(["plain", "gone", "nest", "swap", "near", "near"]),
    )
    if how == "gone":
        del holder[key]
    elif how == "nest":
        holder[key] = [[value]]
    elif how == "swap":
        other, where = draw.choice(places)
        holder[key] = copy.deepcopy(other[where])
    elif how == "near" and isinstance(value, list):
        holder[key] = draw.choice([value[::-1], value[:-1], value[1:], value + value])
    elif how == "near" and type(value) in (int, float):
        holder[key] = draw.choice([value + 1, value - 1, -value, 2 * value, 100 * value + 7])
    else:
        plain: list[Any] = [0, -1, 2**31, 2**63, 10**30, 0.5, math.nan, True, None, "", "../x"]
        plain += ["ridge", [], "simulation", "census_gender", "cuda:99", {}]
        holder[key] = draw.choice(plain)
    return content


def _places(content: Any) -> Iterator[tuple[Any, Any]]:
    """Every entry of nested mappings and lists, as its holder and key."""
    if not isinstance(content, dict | list):
        return
    entries: Any = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in entries:
        yield content, key
        yield from _places(value)

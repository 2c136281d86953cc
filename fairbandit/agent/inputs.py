"""Checks and conversions of arguments: NumPy arrays, tensors and nested lists."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairbandit.environments import Encoder
from fairbandit.environments.base import Truth
from fairbandit.errors import FairbanditError, shown, typed
from fairbandit.policy.policy import Policy
from fairbandit.tables.labels import Codes, coded, words_of

LARGEST, SMALLEST = 1e100, 1e-100
"""The bounds of the size of numbers other than 0. The squares of larger or smaller numbers could
overflow or underflow in double precision."""

MOST = 1_000_000
"""The largest number of features, and of numbered groups."""


def numbers(values: Any, what: str) -> NDArray[Any]:
    """Returns an array of real numbers, without a copy if the values are an array already."""
    try:
        if isinstance(values, Tensor):
            values = values.double() if values.is_floating_point() else values
            array: NDArray[Any] = values.numpy(force=True)
        else:
            array = np.asarray(values)
        masked = isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values)
        if array.dtype.kind not in "biufO" or masked:
            entries = "masked entries" if masked else "entries that are not real numbers"
            raise TypeError(f"it has {'texts' if array.dtype.kind in 'SU' else entries}")
        if array.dtype.kind in "fO" and array.dtype != np.float64:
            array = array.astype(np.float64)
    except Exception as error:  # an object's own conversion may raise any error
        raise FairbanditError(
            f"{what}: expected real numbers, in rows of one length; got {typed(values)}: {error}"
        ) from error
    if array.dtype.kind == "f":
        sizes = np.abs(array)
        least = np.minimum.reduce(sizes, None, initial=1.0)
        if not (least >= SMALLEST and np.maximum.reduce(sizes, None, initial=1.0) <= LARGEST):
            good = (sizes <= LARGEST) & ((sizes >= SMALLEST) | (sizes == 0))  # False for NaN
            for at in np.argwhere(~good).tolist():
                raise FairbanditError(
                    f"{what}: expected numbers that are 0 or from {SMALLEST:g} to {LARGEST:g} in "
                    f"size, got {array[tuple(at)]}" + (f" at {at}" if at else "")
                )
    return array


def number(value: Any, what: str, least: float = -LARGEST) -> float:
    """Returns one finite number."""
    if type(value) is float and SMALLEST <= abs(value) <= LARGEST and value >= least:
        return value  # many times faster than the conversion to an array
    array = numbers(value, what)
    if array.size != 1 or array.item() < least:
        raise FairbanditError(
            f"{what}: expected one number of at least {least:g}, got {shown(value)}"
        )
    return float(array.item())


def whole(value: Any, what: str, least: int = 0, most: int | None = None) -> int:
    """Returns a whole number."""
    fits = type(value) is int or (
        isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))
    )
    if not fits or value < least or (most is not None and value > most):
        to = "" if most is None else f" and at most {most:,}"
        raise FairbanditError(
            f"{what}: expected a whole number of at least {least}{to}, got {shown(value)}"
        )
    return int(value)


def listed(values: Any, what: str, expected: str = "an array or a list") -> list[Any]:
    """Returns the entries of an array, tensor, series, list or tuple as plain Python objects."""
    if type(values) is list:
        return values
    values = values.to_pylist() if hasattr(values, "to_pylist") else values  # of Arrow
    entries = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(entries, (list, tuple, range)):
        raise FairbanditError(f"{what}: expected {expected}, got {typed(values)}")
    return list(entries)


def check_index(table: Any, **columns: Any) -> None:
    """Raises an error for a column of pandas whose index is not the index of its table."""
    for name, column in columns.items():
        rows: list[Any] = [getattr(data, "index", None) for data in (table, column)]
        if all(hasattr(index, "equals") for index in rows) and not rows[0].equals(rows[1]):
            raise FairbanditError(f"{name}: expected the index of the table, row by row")


def labels(values: Any, expected: str = 'labels, as in `pool["ethnicity"]`') -> list[Any]:
    """Returns the candidates' labels; labels of several columns, as in a DataFrame, are tuples."""
    if values is None:
        raise FairbanditError(f"groups: expected {expected}, since only raw rows hold their labels")
    if hasattr(values, "itertuples"):
        values = [list(row) for row in values.itertuples(index=False, name=None)]
    entries = values if type(values) is list else listed(values, "groups", expected)
    if list not in map(type, entries):
        return entries
    rows = [label if type(label) is list else [label] for label in entries]
    return [row[0] if len(row) == 1 else tuple(row) for row in rows]


def groups(value: int | Sequence[Hashable], unknown: Sequence[Hashable] = ()) -> Codes:
    """Returns the first groups by the normal forms of their labels; G stands for 0 … G−1."""
    if isinstance(value, (int, np.integer)):
        value = range(whole(value, "groups", most=MOST))
    labels = listed(value, "groups")
    _, codes = coded(labels, Codes(words=words_of(unknown)))
    if len(codes) < len(labels):
        raise FairbanditError(f"groups: expected labels that differ, got {shown(labels)}")
    return codes


def features(value: Any) -> Encoder | tuple[str, ...] | int:
    """Checks the features of an agent: an encoder, the features' names, or their number d."""
    if isinstance(value, Encoder):
        return value
    if not isinstance(value, (list, tuple)) or not all(isinstance(name, str) for name in value):
        return whole(value, "features", 1, MOST)
    if len(set(value)) < max(len(value), 1):
        raise FairbanditError(f"features: expected names that differ, got {shown(value)}")
    return tuple(value)


def policy(given: Any, refresh: Any) -> Policy:
    """Returns the policy of an agent, with another `refresh` unless it is None."""
    if not isinstance(given, Policy):
        raise FairbanditError(
            f"expected a fairbandit.Policy, got {shown(given)}; see Agent.from_config"
        )
    refresh = given.refresh if refresh is None else number(refresh, "refresh")
    return Policy(**given.parts, refresh=refresh, name=given.name)  # type: ignore[arg-type]


def truth(given: Truth, features: int) -> Truth:
    """Checks a ground truth, whose θ becomes a tensor of d numbers."""
    if not isinstance(given, Truth):
        raise FairbanditError(f"truth: expected a fairbandit.Truth(theta, cdf), got {shown(given)}")
    if given.theta is None:
        return given
    theta = numbers(given.theta, "truth.theta")
    if theta.shape != (features,):
        raise FairbanditError(
            f"truth.theta: expected shape ({features},), one number per feature; got {theta.shape}"
        )
    return Truth(torch.from_numpy(np.array(theta, dtype=np.float64)), given.cdf)


def check_known(policy: Policy, given: Truth | None, groups: Codes, first: int) -> None:
    """Checks that a truth that a policy reads knows the CDF of each group from `first` on."""
    if given is None or "truth" not in policy.rank.needs:
        return
    top, rounds = torch.full((1,), LARGEST, dtype=torch.float64), torch.tensor([1])
    for code, label in list(groups.values())[first:]:
        try:
            share = float(given.cdf(torch.tensor([code]), top, rounds))
            covered, reason = abs(share - 1) < 1e-6, f"it is {share:g} at {LARGEST:g}, not 1"
        except IndexError as error:
            covered, reason = False, str(error)
        if not covered:
            raise FairbanditError(
                f"the truth's cdf does not know group {label!r}, number {code}: {reason}"
            )

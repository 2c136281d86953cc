"""Checks and conversions of arguments: NumPy arrays, tensors and nested lists."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairbandit.environments import Encoder
from fairbandit.environments.base import Truth
from fairbandit.environments.reading import table_of
from fairbandit.errors import FairbanditError
from fairbandit.labels import Codes, coded, spellings
from fairbandit.logs.log import padded, pieces
from fairbandit.logs.schema import pool_key
from fairbandit.maths.checks import shown, typed
from fairbandit.past import Outcomes
from fairbandit.streams import CHUNK_ROUNDS

LARGEST, SMALLEST = 1e100, 1e-100
"""The bounds of the size of numbers other than 0. The squares of larger or smaller numbers could
overflow or underflow in double precision."""

MOST = 1_000_000
"""The largest number of features, and of numbered groups."""

PIECE = 16 * CHUNK_ROUNDS
"""The number of logged rounds that are processed at once."""


class Pools(NamedTuple):
    """N pools of at most K candidates, whose groups are numbered.

    Attributes:
        contexts, groups: the candidates' features and group numbers, (1, N, K, d) and (1, N, K);
            −1 for an empty place.
        known: all known groups.
    """

    contexts: Tensor
    groups: Tensor
    known: Codes

    @classmethod
    def padded(
        cls, pools: Sequence[NDArray[Any]], codes: Sequence[NDArray[np.int64]], known: Codes
    ) -> Self:
        """Returns pools (Kᵢ, d) with group numbers (Kᵢ,), with empty places after smaller ones."""
        sizes = np.array([len(pool) for pool in pools])
        contexts = padded(sizes, np.concatenate(pools, dtype=np.float64), 0.0)
        groups = padded(sizes, np.concatenate(codes), -1)
        return cls(torch.from_numpy(contexts)[None], torch.from_numpy(groups)[None], known)

    @property
    def tensors(self) -> tuple[Tensor, Tensor]:
        """The pools as a policy takes them: contexts and groups."""
        return self.contexts, self.groups

    @property
    def labels(self) -> list[list[Hashable]]:
        """The first spelling of each candidate's group, pool by pool."""
        known = spellings(self.known)
        return [[known[group] for group in pool if group >= 0] for pool in self.groups[0].tolist()]

    @property
    def keys(self) -> list[str]:
        """The hash of each pool's labels, see `pool_key`."""
        forms = list(self.known)
        pools = self.groups[0].tolist()
        return [pool_key([forms[group] for group in pool if group >= 0]) for pool in pools]


def numbers(values: Any, what: str) -> NDArray[Any]:
    """Returns an array of real numbers, without a copy if the values are an array already.

    Args:
        values: a NumPy array, a tensor on any device, a number, or lists of such values.
        what: the name of the values in messages.

    Raises:
        FairbanditError: other values, rows of different lengths, or a number out of range.
    """
    try:
        if isinstance(values, Tensor):
            values = values.double() if values.is_floating_point() else values
            array: NDArray[Any] = values.numpy(force=True)
        else:
            array = np.asarray(values)
        masked = isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values)
        if array.dtype.kind not in "biufO" or masked:
            raise TypeError("it has masked entries, or entries that are not real numbers")
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
    """Returns one finite number.

    Raises:
        FairbanditError: another value, or a number that is too small.
    """
    if type(value) is float and SMALLEST <= abs(value) <= LARGEST and value >= least:
        return value  # many times faster than the conversion to an array
    array = numbers(value, what)
    if array.size != 1 or array.item() < least:
        raise FairbanditError(
            f"{what}: expected one number of at least {least:g}, got {shown(value)}"
        )
    return float(array.item())


def whole(value: Any, what: str, least: int = 0, most: int | None = None) -> int:
    """Returns a whole number.

    Raises:
        FairbanditError: another value, or a number that is too small or too large.
    """
    fits = type(value) is int or (
        isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))
    )
    if not fits or value < least or (most is not None and value > most):
        to = "" if most is None else f" and at most {most:,}"
        raise FairbanditError(
            f"{what}: expected a whole number of at least {least}{to}, got {shown(value)}"
        )
    return int(value)


def listed(values: Any, what: str) -> list[Any]:
    """Returns the entries of an array, tensor, series, list or tuple as plain Python objects.

    Raises:
        FairbanditError: a value of another type.
    """
    if type(values) is list:
        return list(values)
    entries = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(entries, (list, tuple, range)):
        raise FairbanditError(f"{what}: expected an array or a list, got {typed(values)}")
    return list(entries)


def groups(given: int | Sequence[Hashable]) -> Codes:
    """Returns the first groups by the normal forms of their labels; G stands for 0 … G−1.

    Raises:
        FairbanditError: neither a number of groups nor a list of labels, or a repeated label.
    """
    if isinstance(given, (int, np.integer)):
        given = range(whole(given, "groups", most=MOST))
    labels = listed(given, "groups")
    _, codes = coded(labels, {})
    if len(codes) < len(labels):
        raise FairbanditError(f"groups: expected labels that differ, got {shown(labels)}")
    return codes


def features(given: Any) -> Encoder | tuple[str, ...] | int:
    """Checks the features of an agent: an encoder, the features' names, or their number d.

    Raises:
        FairbanditError: a value of another type, no features, or too many features.
    """
    if isinstance(given, Encoder):
        return given
    if not isinstance(given, (list, tuple)) or not all(isinstance(name, str) for name in given):
        return whole(given, "features", 1, MOST)
    if len(set(given)) < max(len(given), 1):
        raise FairbanditError(f"features: expected names that differ, got {shown(given)}")
    return tuple(given)


@contextmanager
def of_pool(at: int) -> Iterator[None]:
    """Re-raises errors of a block with the number of the pool in their messages."""
    try:
        yield
    except FairbanditError as error:
        raise FairbanditError(f"pool {at}: {error}") from error


def encoded(
    contexts: Any, encoder: Encoder | None, names: Sequence[str] | None = None, ndim: int = 2
) -> Any:
    """Encodes a pool of raw rows, or a list of such pools if `ndim` is 3; returns arrays as given.

    Raises:
        FairbanditError: a table whose columns are not the names, if `encoder` is None.
    """
    if isinstance(contexts, (np.ndarray, Tensor)):
        return contexts
    if ndim == 3 and isinstance(contexts, (list, tuple)):
        pools = list[Any]()
        for at, pool in enumerate(contexts):
            with of_pool(at):
                pools.append(encoded(pool, encoder, names))
        return pools
    if ndim == 3 and (hasattr(contexts, "columns") or isinstance(contexts, Mapping)):
        raise FairbanditError(
            "contexts: expected an array or a list of pools, got one table; "
            "act_many(table, labels, pools=COLUMN) takes a column that says the pool of each row"
        )
    if encoder is None:
        columns = getattr(contexts, "columns", None)
        if columns is not None and list(columns) != list(names or ()):
            raise FairbanditError(
                f"contexts: the columns are {shown(list(columns))}; an agent takes a table only if "
                f"these are its features, in this order: features={shown(list(names or columns))}"
            )
        return contexts
    if isinstance(contexts, (list, tuple)) and not any(
        isinstance(row, Mapping) for row in contexts
    ):
        return contexts
    return encoder(contexts)


def pool(contexts: Any, groups: Any, features: int) -> tuple[NDArray[np.float64], list[Any]]:
    """Returns a pool's contexts, (K, d) float64, as a copy, and its K labels.

    Raises:
        FairbanditError: wrong shapes, an empty pool, or values that are not finite.
    """
    array = numbers(contexts, "contexts")
    _check_pool(array, "contexts", features)
    labels = listed(groups, "groups")
    if len(labels) != len(array):
        raise FairbanditError(
            f"groups: expected {len(array)} labels, one per candidate; got {len(labels)}"
        )
    return np.array(array, dtype=np.float64), labels


def pools(
    contexts: Any, groups: Any, features: int
) -> tuple[list[NDArray[Any]], list[list[Hashable]]]:
    """Returns the contexts (Kᵢ, d) and the Kᵢ labels of each of N pools.

    Raises:
        FairbanditError: wrong shapes, an empty pool, or values that are not finite.
    """
    if isinstance(contexts, (list, tuple)):
        arrays = [numbers(rows, f"contexts[{at}]") for at, rows in enumerate(contexts)]
    else:
        arrays = list(np.atleast_1d(numbers(contexts, "contexts")))
    labels = [listed(pool, "groups") for pool in listed(groups, "groups")]
    if len(labels) != len(arrays):
        raise FairbanditError(
            f"groups: expected the labels of {len(arrays)} pools, like the contexts; got those of "
            f"{len(labels)}"
        )
    for at, (rows, names) in enumerate(zip(arrays, labels, strict=True)):
        _check_pool(rows, f"contexts[{at}]", features)
        if len(names) != len(rows):
            raise FairbanditError(
                f"groups[{at}]: expected {len(rows)} labels, one per candidate; got {len(names)}"
            )
    return arrays, labels


def split(
    contexts: Any, groups: Any, pools: Any, encoder: Encoder | None, names: Sequence[str] | None
) -> tuple[list[NDArray[Any]], list[list[Hashable]]]:
    """Splits R candidates into pools, in the order of the pools' first candidates.

    Args:
        contexts: the candidates' features, (R, d), or a table.
        groups: the labels of the candidates' groups, (R,).
        pools: the pool of each candidate, (R,), or the column of the table that holds it.
        encoder, names: as for `encoded`.

    Returns:
        The contexts and the labels of each pool.

    Raises:
        FairbanditError: a missing column or pool, or different numbers of candidates.
    """
    if isinstance(pools, str):
        table = table_of(contexts)
        if pools not in table.column_names:
            raise FairbanditError(f"pools: the table has no column {shown(pools)}")
        pools, contexts = table[pools].to_pylist(), table.drop_columns([pools]).to_pandas()
    rows, labels = numbers(encoded(contexts, encoder, names), "contexts"), listed(groups, "groups")
    given = listed(pools, "pools")
    if not np.shape(rows)[:1] == (len(labels),) == (len(given),):
        raise FairbanditError(
            f"expected the groups and the pools of all candidates; got contexts of shape "
            f"{np.shape(rows)}, {len(labels)} groups and {len(given)} pools"
        )
    if missing := [row for row, own in enumerate(given) if own is None]:
        raise FairbanditError(f"pools: candidate {missing[0]} has no pool")
    codes, _ = coded(given, {}, "pools")
    *places, _ = np.split(codes.argsort(kind="stable"), np.bincount(codes).cumsum())
    return [rows[at] for at in places], [[labels[row] for row in at] for at in places]


def log(
    contexts: Any, groups: Any, actions: Any, rewards: Any, features: int
) -> Iterator[tuple[list[NDArray[Any]], list[Any], NDArray[np.int64], NDArray[np.float64]]]:
    """Checks logged rounds and cuts them into pieces; see `Agent.observe`.

    Yields:
        The pools of N rounds, (Kᵢ, d) each, the labels of all their candidates, and the picks'
        places and rewards, (N,) each.

    Raises:
        FairbanditError: shapes that do not match, contexts or rewards that are not finite, or
            actions that are not integers from 0 to Kᵢ − 1.
    """
    arrays, labels = pools(contexts, groups, features)
    places, given, n = numbers(actions, "actions"), numbers(rewards, "rewards"), len(arrays)
    if not places.shape == given.shape == (n,):
        raise FairbanditError(
            f"expected actions and rewards of {n} rounds, like the contexts; got {places.shape} "
            f"and {given.shape}"
        )
    if n and places.dtype.kind not in "iu":
        raise FairbanditError(f"actions: expected whole numbers, got {places.dtype}")
    for at, (rows, place) in enumerate(zip(arrays, places.tolist(), strict=True)):
        if not 0 <= place < len(rows):
            raise FairbanditError(
                f"expected an action from 0 to {len(rows) - 1} in pool {at}; got action {place}"
            )
    places, given = places.astype(np.int64), given.astype(np.float64)
    for piece in pieces(np.array([len(rows) for rows in arrays], np.int64), PIECE):
        yield arrays[piece], list(chain(*labels[piece])), places[piece], given[piece]


def tensors(
    pools: list[NDArray[Any]],
    codes: NDArray[np.int64],
    places: NDArray[np.int64],
    rewards: NDArray[np.float64],
    first: int,
) -> tuple[Tensor, Tensor, Outcomes]:
    """Returns N logged rounds as contexts (1, N, K, d), groups (1, N, K) and outcomes.

    Smaller pools are padded with empty places; `first` is the number of the first round.
    """
    sizes = np.array([len(pool) for pool in pools])
    contexts = padded(sizes, np.concatenate(pools, dtype=np.float64), 0.0)
    groups = padded(sizes, codes, -1)
    picked = np.arange(len(pools)), places
    arrays = contexts, groups, contexts[picked], groups[picked], rewards
    x, g, *outcomes = (torch.from_numpy(array)[None] for array in arrays)
    return x, g, Outcomes(torch.arange(first, first + len(pools)), *outcomes)


def entry(contexts: Any, groups: Any, actions: Any, rewards: Any) -> dict[str, Any]:
    """Returns the log's entry for observed rounds, which `log` has checked."""
    return {
        "kind": "observed",
        "contexts": [numbers(pool, "contexts").tolist() for pool in contexts],
        "groups": [listed(pool, "groups") for pool in listed(groups, "groups")],
        "actions": numbers(actions, "actions").tolist(),
        "rewards": numbers(rewards, "rewards").tolist(),
    }


def truth(given: Truth, features: int) -> Truth:
    """Returns a truth whose θ is a tensor of d numbers.

    Raises:
        FairbanditError: another type of value, or a θ of another shape or that is not finite.
    """
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


def check_known(given: Truth | None, groups: Codes, first: int) -> None:
    """Checks that a truth knows the CDF of each group from number `first` on.

    Raises:
        FairbanditError: a group without a CDF, or whose CDF is not 1 at `LARGEST`.
    """
    if given is None:
        return
    top, rounds = torch.full((1,), LARGEST, dtype=torch.float64), torch.tensor([1])
    for code, label in list(groups.values())[first:]:
        try:
            share = float(given.cdf(torch.tensor([code]), top, rounds))
            known, reason = abs(share - 1) < 1e-6, f"it is {share:g} at {LARGEST:g}, not 1"
        except IndexError as error:
            known, reason = False, str(error)
        if not known:
            raise FairbanditError(
                f"the truth's cdf does not know group {label!r}, number {code}: {reason}"
            )


def _check_pool(array: NDArray[Any], what: str, features: int) -> None:
    if array.ndim != 2 or array.shape[1] != features or not len(array):
        raise FairbanditError(
            f"{what}: expected shape (K, {features}) with K of at least 1, a row of {features} "
            f"features per candidate; got shape {array.shape}"
        )

"""What users hand in, checked and as arrays: NumPy arrays, tensors and nested lists are welcome."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.maths.checks import shown, typed
from fairbandit.past import Outcomes
from fairbandit.splits.schedule import check_refresh

LARGEST, SMALLEST = 1e100, 1e-100
"""Numbers beyond the one, or nearer to 0 than the other, are refused: their squares would not be
numbers of double precision."""

Codes = NDArray[np.int64]
"""The groups' codes of some candidates."""

FEATURES = 1_000_000
"""Contexts have at most so many features."""

PIECE = 1 << 21
"""About how many numbers of logged contexts are taken in at once."""


def numbers(values: Any, what: str) -> NDArray[Any]:
    """An array of real numbers, without a copy where there is one already.

    Args:
        values: a NumPy array, a tensor on any device, a number, or lists of these.
        what: what messages call it.

    Raises:
        FairbanditError: no numbers, rows of different lengths, or a value not finite or too large.
    """
    try:
        if isinstance(values, Tensor):
            values = values.double() if values.is_floating_point() else values
            array: NDArray[Any] = values.numpy(force=True)
        else:
            array = np.asarray(values)
        if np.ma.is_masked(values) or array.dtype.kind in "USmM":
            raise TypeError("it holds masked entries, texts or times")
        if array.dtype.kind not in "biu" and array.dtype != np.float64:
            array = array.astype(np.float64)
    except Exception as error:  # whatever an object's own conversion may raise
        raise FairbanditError(
            f"{what}: expected real numbers, in rows of one length; got {typed(values)}: {error}"
        ) from error
    if array.dtype.kind == "f" and array.size:
        sizes = np.abs(array)
        good = (sizes <= LARGEST) & ((sizes >= SMALLEST) | (sizes == 0))  # NaN is neither
        if not good.all():
            at = np.argwhere(~good)[0].tolist()
            raise FairbanditError(
                f"{what}: expected numbers that are 0 or from {SMALLEST:g} to {LARGEST:g} in size, "
                f"got {array[tuple(at)]}" + (f" at {at}" if at else "")
            )
    return array


def number(value: Any, what: str) -> float:
    """One finite number.

    Raises:
        FairbanditError: anything else.
    """
    if type(value) is float and (SMALLEST <= abs(value) <= LARGEST or value == 0):
        return value
    array = numbers(value, what)
    if array.size != 1:
        raise FairbanditError(f"{what}: expected one number, got an array of shape {array.shape}")
    return float(array.item())


def whole(value: Any, what: str, least: int, most: int | None = None) -> int:
    """A whole number.

    Raises:
        FairbanditError: anything else, or one that is too small or too large.
    """
    fits = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not fits or value < least or (most is not None and value > most):
        to = "" if most is None else f" and at most {most:,}"
        raise FairbanditError(
            f"{what}: expected a whole number of at least {least}{to}, got {shown(value)}"
        )
    return int(value)


def refresh(given: Any, own: float | None) -> float | None:
    """The refresh of an agent, given one and its policy's own.

    Raises:
        FairbanditError: a value out of range, or two that differ.
    """
    if given is None:
        return own
    factor = number(given, "refresh")
    check_refresh(factor)
    if own not in (None, factor):
        raise FairbanditError(
            f"refresh: the policy has {own:g} and the agent was given {factor:g}; give one of them"
        )
    return factor


def options(features: Any, seed: Any, exploration: Any, patience: Any) -> dict[str, Any]:
    """What an `Agent` is given beside its policy, groups, truth and refresh, by name.

    Raises:
        FairbanditError: a value out of range.
    """
    exploration = number(exploration, "exploration")
    if exploration < 0:
        raise FairbanditError(f"exploration: expected at least 0, got {exploration:g}")
    return {
        "features": whole(features, "features", 1, FEATURES),
        "seed": whole(seed, "seed", 0),
        "exploration": exploration,
        "patience": None if patience is None else whole(patience, "patience", 0),
    }


def pool(contexts: Any, groups: Any, features: int) -> tuple[NDArray[np.float64], list[Any]]:
    """A pool's contexts, (K, d) float64 in memory of their own, and its labels, K of them.

    Raises:
        FairbanditError: other shapes, no candidate, or values that are not finite.
    """
    array = numbers(contexts, "contexts")
    if array.ndim != 2 or array.shape[1] != features or not len(array):
        raise FairbanditError(
            f"contexts: expected (K, {features}), a row of {features} features for each of at "
            f"least one candidate; got shape {array.shape}"
        )
    labels = listed(groups, "groups")
    if len(labels) != len(array):
        raise FairbanditError(
            f"groups: expected {len(array)} labels, one a candidate; got {len(labels)}"
        )
    return np.array(array, dtype=np.float64), labels


def listed(values: Any, what: str) -> list[Any]:
    """The entries of an array, a tensor, a series, a list or a tuple, as plain Python objects.

    Raises:
        FairbanditError: anything else.
    """
    entries = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(entries, (list, tuple)):
        raise FairbanditError(f"{what}: expected an array or a list, got {typed(values)}")
    return list(entries)


class Log:
    """Logged rounds, checked and stored with all M = Σᵢ Kᵢ candidates in one array.

    Args:
        contexts: the features of n pools, (n, K, d), or a list of n pools (Kᵢ, d).
        groups: the labels of their candidates, (n, K), or a list of n lists of Kᵢ.
        actions: the position of each pick in its pool, from 0: n integers.
        rewards: the rewards of the picks, n finite numbers.
        features: d.

    Attributes:
        labels: the labels of all M candidates.

    Raises:
        FairbanditError: shapes that do not match, contexts or rewards that are not finite, actions
            that are no integers or not from 0 to Kᵢ − 1.
    """

    def __init__(
        self, contexts: Any, groups: Any, actions: Any, rewards: Any, features: int
    ) -> None:
        self._contexts, sizes = _flat(contexts, features)  # of all candidates, (M, d)
        self.labels = _labels(groups, sizes)
        n = len(sizes)
        places, given = numbers(actions, "actions"), numbers(rewards, "rewards")
        for what, array in (("actions", places), ("rewards", given)):
            if array.shape != (n,):
                raise FairbanditError(
                    f"{what}: expected one for each of the {n} pools, shape ({n},); got "
                    f"{array.shape}"
                )
        if n and places.dtype.kind not in "iu":
            raise FairbanditError(f"actions: expected whole numbers, got {places.dtype}")
        wrong = (places < 0) | (places >= sizes)
        if wrong.any():
            at = int(wrong.argmax())
            raise FairbanditError(
                f"actions: expected places from 0 to {sizes[at] - 1} in pool {at}, got {places[at]}"
            )
        self._rewards, self._ends = given.astype(np.float64), np.append(0, sizes.cumsum())
        self._picked = self._ends[:-1] + places.astype(np.int64)  # among all candidates

    def pieces(self, codes: Codes, first: int) -> Iterator[tuple[Tensor, Tensor, Outcomes]]:
        """Cuts the rounds into pieces of about `PIECE` numbers.

        Args:
            codes: the groups of all M candidates.
            first: the first of the rounds.

        Yields:
            Of N consecutive rounds, the pools, (1, N, K, d) float64 and (1, N, K) int64, small ones
            filled up with empty places, and the outcomes.
        """
        n, d = len(self._rewards), self._contexts.shape[1]
        largest = int(np.diff(self._ends).max(initial=1))
        for low, high in pairwise([*range(0, n, max(1, PIECE // (largest * d))), n]):
            sizes = np.diff(self._ends[low : high + 1])
            rows = slice(self._ends[low], self._ends[high])
            here = np.arange(sizes.max()) < sizes[:, None]
            contexts, groups = np.zeros((*here.shape, d)), np.full(here.shape, -1)
            contexts[here], groups[here] = self._contexts[rows], codes[rows]
            at = self._picked[low:high]
            picks = self._contexts[at].astype(np.float64), codes[at], self._rewards[low:high]
            x, g, *outcomes = (torch.from_numpy(part)[None] for part in (contexts, groups, *picks))
            yield x, g, Outcomes(torch.arange(first + low, first + high), *outcomes)


def _flat(contexts: Any, features: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """All candidates' contexts, (M, d), and how many each pool has, (n,)."""
    expected = f"expected (n, K, {features}), or a list of pools (K, {features}), K at least 1"
    if not isinstance(contexts, (list, tuple)):
        array = numbers(contexts, "contexts")
        if array.ndim != 3 or not array.shape[1] or array.shape[2] != features:
            raise FairbanditError(f"contexts: {expected}; got shape {array.shape}")
        return array.reshape(-1, features), np.full(len(array), array.shape[1])
    pools = [numbers(one, f"contexts[{at}]") for at, one in enumerate(contexts)]
    for at, one in enumerate(pools):
        if one.ndim != 2 or one.shape[1] != features or not len(one):
            raise FairbanditError(f"contexts[{at}]: {expected}; got shape {one.shape}")
    sizes = np.array([len(one) for one in pools], dtype=np.int64)
    return np.concatenate([np.empty((0, features)), *pools]), sizes


def _labels(groups: Any, sizes: NDArray[np.int64]) -> list[Any]:
    """All candidates' labels, M of them."""
    pools = [listed(one, f"groups[{at}]") for at, one in enumerate(listed(groups, "groups"))]
    if len(pools) != len(sizes):
        raise FairbanditError(f"groups: expected {len(sizes)} pools, got {len(pools)}")
    for at, (pool, size) in enumerate(zip(pools, sizes.tolist(), strict=True)):
        if len(pool) != size:
            raise FairbanditError(f"groups: expected {size} labels in pool {at}, got {len(pool)}")
    return list(chain(*pools))

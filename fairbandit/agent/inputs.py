"""What users hand in, checked and as arrays: NumPy arrays, tensors and nested lists are welcome."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairbandit.environments import Encoder
from fairbandit.environments.base import Truth
from fairbandit.errors import FairbanditError
from fairbandit.labels import Codes, coded
from fairbandit.maths.checks import shown, typed
from fairbandit.past import Outcomes
from fairbandit.streams import CHUNK_ROUNDS

LARGEST, SMALLEST = 1e100, 1e-100
"""Numbers beyond the one, or nearer to 0 than the other, are refused: their squares would not be
numbers of double precision."""

MOST = 1_000_000
"""So many features or numbered groups there are at most."""


PIECE = 16 * CHUNK_ROUNDS
"""So many logged rounds are taken in at once."""


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
        masked = isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values)
        if array.dtype.kind not in "biufO" or masked:
            raise TypeError("it holds masked entries, or what are no real numbers")
        if array.dtype.kind in "fO":
            array = array.astype(np.float64, copy=False)
    except Exception as error:  # whatever an object's own conversion may raise
        raise FairbanditError(
            f"{what}: expected real numbers, in rows of one length; got {typed(values)}: {error}"
        ) from error
    if array.dtype.kind == "f":
        sizes = np.abs(array)
        least, most = (f.reduce(sizes, None, initial=1.0) for f in (np.minimum, np.maximum))
        if not (least >= SMALLEST and most <= LARGEST):
            good = (sizes <= LARGEST) & ((sizes >= SMALLEST) | (sizes == 0))  # NaN is neither
            for at in np.argwhere(~good).tolist():
                raise FairbanditError(
                    f"{what}: expected numbers that are 0 or from {SMALLEST:g} to {LARGEST:g} in "
                    f"size, got {array[tuple(at)]}" + (f" at {at}" if at else "")
                )
    return array


def number(value: Any, what: str, least: float = -LARGEST) -> float:
    """One finite number.

    Raises:
        FairbanditError: anything else, or one that is too small.
    """
    if type(value) is float and SMALLEST <= abs(value) <= LARGEST and value >= least:
        return value  # many times as fast
    array = numbers(value, what)
    if array.size != 1 or array.item() < least:
        raise FairbanditError(
            f"{what}: expected one number of at least {least:g}, got {shown(value)}"
        )
    return float(array.item())


def whole(value: Any, what: str, least: int = 0, most: int | None = None) -> int:
    """A whole number.

    Raises:
        FairbanditError: anything else, or one that is too small or too large.
    """
    fits = isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))
    if not fits or value < least or (most is not None and value > most):
        to = "" if most is None else f" and at most {most:,}"
        raise FairbanditError(
            f"{what}: expected a whole number of at least {least}{to}, got {shown(value)}"
        )
    return int(value)


def listed(values: Any, what: str) -> list[Any]:
    """The entries of an array, a tensor, a series, a list or a tuple, as plain Python objects.

    Raises:
        FairbanditError: anything else.
    """
    entries = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(entries, (list, tuple, range)):
        raise FairbanditError(f"{what}: expected an array or a list, got {typed(values)}")
    return list(entries)


def groups(given: int | Sequence[Hashable]) -> Codes:
    """The first groups of an agent, by the normal forms of their labels; G stands for 0 … G−1.

    Raises:
        FairbanditError: neither a number of groups nor a list of labels, or a label given twice.
    """
    if isinstance(given, (int, np.integer)):
        given = range(whole(given, "groups", most=MOST))
    labels = listed(given, "groups")
    _, codes = coded(labels, {})
    if len(codes) < len(labels):
        raise FairbanditError(f"groups: expected labels that differ, got {shown(labels)}")
    return codes


def features(given: Any) -> Encoder | tuple[str, ...] | int:
    """Checks the features of an agent: an encoder, their names, or their number d alone.

    Raises:
        FairbanditError: another kind of value, or no or too many features.
    """
    if isinstance(given, Encoder):
        return given
    if not isinstance(given, (list, tuple)) or not all(isinstance(name, str) for name in given):
        return whole(given, "features", 1, MOST)
    if len(set(given)) < max(len(given), 1):
        raise FairbanditError(f"features: expected names that differ, got {shown(given)}")
    return tuple(given)


def encoded(
    contexts: Any, encoder: Encoder | None, names: Sequence[str] | None = None, ndim: int = 2
) -> Any:
    """Contexts as numbers: a pool of raw rows, or a list of pools if `ndim` is 3, is encoded.

    Raises:
        FairbanditError: without an encoder, a table whose columns are not the names.
    """
    if isinstance(contexts, (np.ndarray, Tensor)):
        return contexts
    if ndim == 3 and isinstance(contexts, (list, tuple)):
        return [encoded(one, encoder, names) for one in contexts]
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
    """A pool's contexts, (K, d) float64 in memory of their own, and its labels, K of them.

    Raises:
        FairbanditError: other shapes, no candidate, or values that are not finite.
    """
    array = numbers(contexts, "contexts")
    _check_pool(array, "contexts", features)
    labels = listed(groups, "groups")
    if len(labels) != len(array):
        raise FairbanditError(
            f"groups: expected {len(array)} labels, one a candidate; got {len(labels)}"
        )
    return np.array(array, dtype=np.float64), labels


def log(
    contexts: Any, groups: Any, actions: Any, rewards: Any, features: int
) -> Iterator[tuple[list[NDArray[Any]], list[Any], NDArray[np.int64], NDArray[np.float64]]]:
    """Logged rounds, checked and cut into pieces; see `Agent.observe`.

    Yields:
        The pools of N rounds, (Kᵢ, d) each, the labels of all their candidates, and the picks'
        places and rewards, (N,) each.

    Raises:
        FairbanditError: shapes that do not match, contexts or rewards that are not finite, actions
            that are no integers or not from 0 to Kᵢ − 1.
    """
    if isinstance(contexts, (list, tuple)):
        pools = [numbers(one, f"contexts[{at}]") for at, one in enumerate(contexts)]
    else:
        pools = list(np.atleast_1d(numbers(contexts, "contexts")))
    labels = [listed(one, "groups") for one in listed(groups, "groups")]
    places, given, n = numbers(actions, "actions"), numbers(rewards, "rewards"), len(pools)
    if not (len(labels),) == places.shape == given.shape == (n,):
        raise FairbanditError(
            f"expected groups, actions and rewards of {n} rounds, as there are contexts; got "
            f"{len(labels)}, {places.shape} and {given.shape}"
        )
    if n and places.dtype.kind not in "iu":
        raise FairbanditError(f"actions: expected whole numbers, got {places.dtype}")
    for at, (one, names, place) in enumerate(zip(pools, labels, places.tolist(), strict=True)):
        _check_pool(one, f"contexts[{at}]", features)
        if len(names) != len(one) or not 0 <= place < len(one):
            raise FairbanditError(
                f"expected {len(one)} labels and an action from 0 to {len(one) - 1} in pool {at}; "
                f"got {len(names)} labels and action {place}"
            )
    places, given = places.astype(np.int64), given.astype(np.float64)
    for low in range(0, n, PIECE):
        some = slice(low, low + PIECE)
        yield pools[some], list(chain(*labels[some])), places[some], given[some]


def tensors(
    pools: list[NDArray[Any]],
    codes: NDArray[np.int64],
    places: NDArray[np.int64],
    rewards: NDArray[np.float64],
    first: int,
) -> tuple[Tensor, Tensor, Outcomes]:
    """N logged rounds from a first one: contexts (1, N, K, d), groups (1, N, K), and outcomes.

    Small pools are filled up with empty places.
    """
    sizes = np.array([len(one) for one in pools])
    present = np.arange(sizes.max()) < sizes[:, None]
    contexts = np.zeros((*present.shape, pools[0].shape[1]))
    groups = np.full(present.shape, -1)
    contexts[present], groups[present] = np.concatenate(pools), codes
    picked = np.arange(len(pools)), places
    arrays = contexts, groups, contexts[picked], groups[picked], rewards
    x, g, *outcomes = (torch.from_numpy(array)[None] for array in arrays)
    return x, g, Outcomes(torch.arange(first, first + len(pools)), *outcomes)


def entry(contexts: Any, groups: Any, actions: Any, rewards: Any) -> dict[str, Any]:
    """What a log says of observed rounds, which were checked."""
    return {
        "kind": "observed",
        "contexts": [numbers(one, "contexts").tolist() for one in contexts],
        "groups": [listed(one, "groups") for one in listed(groups, "groups")],
        "actions": numbers(actions, "actions").tolist(),
        "rewards": numbers(rewards, "rewards").tolist(),
    }


def truth(given: Truth, features: int) -> Truth:
    """A truth whose θ is a tensor of d numbers, whatever it came as.

    Raises:
        FairbanditError: no truth, another number of them, or some that are not finite.
    """
    if not isinstance(given, Truth):
        raise FairbanditError(f"truth: expected a fairbandit.Truth(theta, cdf), got {shown(given)}")
    if given.theta is None:
        return given
    theta = numbers(given.theta, "truth.theta")
    if theta.shape != (features,):
        raise FairbanditError(
            f"truth.theta: expected shape ({features},), one number a feature; got {theta.shape}"
        )
    return Truth(torch.from_numpy(np.array(theta, dtype=np.float64)), given.cdf)


def check_known(given: Truth | None, groups: Codes, first: int) -> None:
    """Refuses groups, from a first number on, of which a truth knows no CDF.

    Raises:
        FairbanditError: a group whose CDF is not 1 at a large enough reward.
    """
    if given is None:
        return
    top, one = torch.full((1,), LARGEST, dtype=torch.float64), torch.tensor([1])
    for code, label in list(groups.values())[first:]:
        try:
            share = float(given.cdf(torch.tensor([code]), top, one))
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
            f"{what}: expected (K, {features}), a row of {features} features for each of at least "
            f"one candidate; got shape {array.shape}"
        )

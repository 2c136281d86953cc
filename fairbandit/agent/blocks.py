"""Pools as callers give them, and the blocks that a policy takes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairbandit.agent.inputs import check_index, listed, numbers
from fairbandit.agent.inputs import labels as labels_of
from fairbandit.environments import Encoder
from fairbandit.errors import FairbanditError, shown
from fairbandit.history import Outcomes
from fairbandit.logs.log import padded, pieces
from fairbandit.logs.schema import pool_key
from fairbandit.streams import CHUNK_ROUNDS
from fairbandit.tables.labels import JOINED, Codes, check_labels, group_label, pool_codes, spellings
from fairbandit.tables.reading import read_table

PIECE = 16 * CHUNK_ROUNDS
"""The number of logged rounds that are processed at once."""


class LabelledPools(NamedTuple):
    """N pools of at most K candidates, whose groups are numbered, as a policy takes them.

    Attributes:
        contexts, groups: the candidates' features and group numbers, (1, N, K, d) and (1, N, K);
            −1 for an empty place.
        all_groups: all known groups.
    """

    contexts: Tensor
    groups: Tensor
    all_groups: Codes

    @classmethod
    def padded(
        cls, pools: Sequence[NDArray[Any]], codes: Sequence[NDArray[np.int64]], all_groups: Codes
    ) -> Self:
        """Returns pools (Kᵢ, d) with group numbers (Kᵢ,), with empty places after smaller ones."""
        sizes = np.array([len(pool) for pool in pools])
        contexts = padded(sizes, np.concatenate(pools, dtype=np.float64), 0.0)
        groups = padded(sizes, np.concatenate(codes), -1)
        return cls(torch.from_numpy(contexts)[None], torch.from_numpy(groups)[None], all_groups)

    @property
    def tensors(self) -> tuple[Tensor, Tensor]:
        """The pools as a policy takes them: contexts and groups."""
        return self.contexts, self.groups

    @property
    def labels(self) -> list[list[Hashable]]:
        """The first spelling of each candidate's group, pool by pool."""
        names = spellings(self.all_groups)
        return [[names[group] for group in pool if group >= 0] for pool in self.groups[0].tolist()]

    @property
    def keys(self) -> list[str]:
        """The hash of each pool's labels, see `pool_key`."""
        forms = list(self.all_groups)
        pools = self.groups[0].tolist()
        return [pool_key([forms[group] for group in pool if group >= 0]) for pool in pools]


@contextmanager
def of_pool(at: int) -> Iterator[None]:
    """Re-raises errors of a block with the number of the pool in their messages."""
    try:
        yield
    except FairbanditError as error:
        raise FairbanditError(f"pool {at}: {error}") from error


def encoded(
    contexts: Any,
    groups: Any,
    encoder: Encoder | None,
    names: Sequence[str] | None = None,
    ndim: int = 2,
    where: str = "the pool",
) -> tuple[Any, Any]:
    """Encodes a pool of raw rows, or a list of such pools if `ndim` is 3; returns arrays as given.

    Messages call the rows `where`.

    Returns:
        The contexts and the groups; for raw rows whose `groups` are None, the rows' own labels.

    Raises:
        FairbanditError: a label that contradicts its row, or a table whose columns are not the
            names, if `encoder` is None.
    """
    check_index(contexts, groups=groups)
    if isinstance(contexts, (np.ndarray, Tensor)):
        return contexts, groups
    if ndim == 3 and isinstance(contexts, (list, tuple)):
        n, pools = len(contexts), list[tuple[Any, Any]]()
        given = [None] * n if groups is None else labels_by_pool(groups, n)
        for at, pool in enumerate(zip(contexts, given, strict=True)):
            with of_pool(at):
                check_index(pool[0], groups=groups[at] if isinstance(groups, list) else None)
                pools.append(encoded(*pool, encoder, names, where=where))
        return [rows for rows, _ in pools], [pool for _, pool in pools]
    if ndim == 3 and _is_table(contexts):
        raise FairbanditError(
            "contexts: expected an array or a list of pools, got one table; "
            "act_many(table, labels, pools=COLUMN) takes a column that says the pool of each row"
        )
    if encoder is None:
        columns = getattr(contexts, "column_names", getattr(contexts, "columns", None))
        if columns is not None and list(columns) != list(names or ()):
            raise FairbanditError(
                f"contexts: the columns are {shown(list(columns))}; an agent takes a table only if "
                f"these are its features, in this order: features={shown(list(names or columns))}"
            )
        return contexts, groups
    if isinstance(contexts, (list, tuple)) and not any(
        isinstance(row, Mapping) for row in contexts
    ):
        return contexts, groups
    features, forms = encoder.labelled(contexts, where, needed=groups is None)
    labels = forms if groups is None else labels_of(groups)
    check_labels(labels, forms, JOINED.join(encoder.groups), encoder.unknown)
    return features, labels


def observed(
    contexts: Any,
    groups: Any,
    actions: Any,
    rewards: Any,
    encoder: Encoder | None,
    names: Sequence[str] | None = None,
) -> tuple[Any, Any, Any]:
    """Encodes logged rounds; each row of a table is a pool of one candidate, see `Agent.observe`.

    Returns:
        The contexts, groups and actions of n pools; actions stay None if a pool has several
        candidates.

    Raises:
        FairbanditError: see `encoded`, or the index of a column is not the index of the table.
    """
    table = _is_table(contexts)
    check_index(contexts, groups=groups, actions=actions, rewards=rewards)
    ndim, where = 2 if table else 3, "the observed rows"
    contexts, groups = encoded(contexts, groups, encoder, names, ndim, where)
    if table:
        contexts = numbers(contexts, "contexts")[:, None]
        groups = [[label] for label in labels_of(groups)]
    if actions is None and all(np.ndim(pool) == 2 and len(pool) == 1 for pool in contexts):
        actions = [0] * len(contexts)
    return contexts, groups, actions


def _is_table(contexts: Any) -> bool:
    return hasattr(contexts, "columns") or isinstance(contexts, Mapping)


def pool(
    contexts: Any, groups: Any, features: int, encoder: Encoder | None
) -> tuple[NDArray[np.float64], list[Any]]:
    """Returns a pool's contexts, (K, d) float64, as a copy, and its K labels.

    Raises:
        FairbanditError: wrong shapes, an empty pool, values that are not finite, or a label that
            contradicts the encoder's features of the group.
    """
    array = numbers(contexts, "contexts")
    _check_pool(array, "contexts", features)
    labels = labels_of(groups)
    if len(labels) != len(array):
        raise FairbanditError(
            f"groups: expected {len(array)} labels, one per candidate; got {len(labels)}"
        )
    if encoder is not None:
        encoder.check_labels(labels, array)
    return np.array(array, dtype=np.float64), labels


def pools(
    contexts: Any, groups: Any, features: int, encoder: Encoder | None
) -> tuple[list[NDArray[Any]], list[list[Hashable]]]:
    """Returns the contexts (Kᵢ, d) and the Kᵢ labels of each of N pools; see `pool`."""
    if isinstance(contexts, (list, tuple)):
        arrays = [numbers(rows, f"contexts[{at}]") for at, rows in enumerate(contexts)]
    else:
        arrays = list(np.atleast_1d(numbers(contexts, "contexts")))
    labels = labels_by_pool(groups, len(arrays))
    for at, (rows, names) in enumerate(zip(arrays, labels, strict=True)):
        _check_pool(rows, f"contexts[{at}]", features)
        if len(names) != len(rows):
            raise FairbanditError(
                f"groups[{at}]: expected {len(rows)} labels, one per candidate; got {len(names)} "
                "(the labels of several columns are a tuple for each candidate, or for pools of "
                "one candidate the table of these columns)"
            )
    if encoder is not None and encoder.labels and arrays:
        row_labels = iter(encoder.labels_in(np.concatenate(arrays)))
        for at, names in enumerate(labels):
            with of_pool(at):
                forms, column = islice(row_labels, len(names)), JOINED.join(encoder.groups)
                check_labels(names, forms, column, encoder.unknown)
    return arrays, labels


def labels_by_pool(groups: Any, n: int) -> list[list[Hashable]]:
    """Returns the labels of each of n pools; other input is an error."""
    expected = (
        "one list of labels for each pool, or for pools of one candidate a table, as in "
        '`people[["ethnicity"]]`'
    )
    if hasattr(groups, "itertuples"):
        groups = [[label] for label in labels_of(groups)]
    labels = [labels_of(pool, expected) for pool in listed(groups, "groups", expected)]
    if len(labels) != n:
        raise FairbanditError(
            f"groups: expected the labels of {n} pools, like the contexts; got {len(labels)} pools"
        )
    return labels


def split(
    contexts: Any, groups: Any, pools: Any, encoder: Encoder | None, names: Sequence[str] | None
) -> tuple[list[NDArray[Any]], list[list[Hashable]]]:
    """Splits R candidates into pools, in the order of the pools' first candidates.

    Args:
        contexts: the candidates' features, (R, d), or a table.
        groups: the labels of the candidates' groups, (R,), or with a column of pools, their column.
        pools: the pool of each candidate, (R,), or the column of the table that holds it.
        encoder, names: as for `encoded`.

    Returns:
        The contexts and the labels of each pool.

    Raises:
        FairbanditError: a missing column or pool, or different numbers of candidates.
    """
    check_index(contexts, groups=groups, pools=pools)
    if isinstance(pools, str):
        table = read_table(contexts)
        named = {"pools": pools} | ({"groups": groups} if isinstance(groups, str) else {})
        for what, name in named.items():
            if name not in table:
                raise FairbanditError(f"{what}: the table lacks the column {shown(name)}")
        cells = {
            what: table[name].astype(object).where(table[name].notna(), None).tolist()
            for what, name in named.items()
        }
        pools, groups = cells["pools"], cells.get("groups", groups)
        if encoder is None:  # encoders ignore other columns
            table = table.drop(columns=sorted({*named.values()} - {*(names or ())}))
        contexts = table
    rows, labels = encoded(contexts, groups, encoder, names)
    rows, labels = numbers(rows, "contexts"), labels_of(labels)
    pool_of_row = listed(pools, "pools")
    if not np.shape(rows)[:1] == (len(labels),) == (len(pool_of_row),):
        raise FairbanditError(
            f"expected the groups and the pools of all candidates; got contexts of shape "
            f"{np.shape(rows)}, {len(labels)} groups and {len(pool_of_row)} pools"
        )
    codes = pool_codes(pool_of_row)
    *places, _ = np.split(codes.argsort(kind="stable"), np.bincount(codes).cumsum())
    return [rows[at] for at in places], [[labels[row] for row in at] for at in places]


def log(
    contexts: Any,
    groups: Any,
    actions: Any,
    rewards: Any,
    features: int,
    encoder: Encoder | None,
) -> Iterator[tuple[list[NDArray[Any]], list[Any], NDArray[np.int64], NDArray[np.float64]]]:
    """Checks logged rounds and cuts them into pieces; see `Agent.observe`.

    Yields:
        The pools of N rounds, (Kᵢ, d) each, the labels of all their candidates, and the picks'
        places and rewards, (N,) each.

    Raises:
        FairbanditError: shapes that do not match, contexts or rewards that are not finite, or
            actions that are not integers from 0 to Kᵢ − 1.
    """
    arrays, labels = pools(contexts, groups, features, encoder)
    if actions is None:
        raise FairbanditError(
            "actions: expected the place of the pick, as pools have several places"
        )
    if rewards is None:
        raise FairbanditError("rewards: expected the reward of each round, rewards=...")
    places, received, n = numbers(actions, "actions"), numbers(rewards, "rewards"), len(arrays)
    if not places.shape == received.shape == (n,):
        raise FairbanditError(
            f"expected actions and rewards of {n} rounds, like the contexts; got {places.shape} "
            f"and {received.shape}"
        )
    if n and places.dtype.kind not in "iu":
        raise FairbanditError(f"actions: expected whole numbers, got {places.dtype}")
    for at, (rows, place) in enumerate(zip(arrays, places.tolist(), strict=True)):
        if not 0 <= place < len(rows):
            raise FairbanditError(
                f"expected an action from 0 to {len(rows) - 1} in pool {at}; got action {place}"
            )
    places, received = places.astype(np.int64), received.astype(np.float64)
    for piece in pieces(np.array([len(rows) for rows in arrays], np.int64), PIECE):
        yield arrays[piece], list(chain(*labels[piece])), places[piece], received[piece]


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
    x, g = LabelledPools.padded(pools, [codes], Codes()).tensors
    rounds, at = torch.arange(len(pools)), torch.from_numpy(places)
    received = torch.from_numpy(rewards)[None]
    return x, g, Outcomes(rounds + first, x[:, rounds, at], g[:, rounds, at], received)


def entry(contexts: Any, groups: Any, actions: Any, rewards: Any) -> dict[str, Any]:
    """Returns the log's entry for observed rounds, which `log` has checked."""
    return {
        "kind": "observed",
        "contexts": [numbers(pool, "contexts").tolist() for pool in contexts],
        "groups": [[*map(group_label, pool)] for pool in labels_by_pool(groups, len(contexts))],
        "actions": numbers(actions, "actions").tolist(),
        "rewards": numbers(rewards, "rewards").tolist(),
    }


def _check_pool(array: NDArray[Any], what: str, features: int) -> None:
    if array.ndim != 2 or array.shape[1] != features or not len(array):
        raise FairbanditError(
            f"{what}: expected shape (K, {features}) with K of at least 1, a row of {features} "
            f"features per candidate; got shape {array.shape}"
        )

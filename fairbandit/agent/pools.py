"""Reads the pools that callers give: arrays, lists, tables and raw rows."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fairbandit.agent.inputs import check_index, listed, number, numbers, whole
from fairbandit.agent.inputs import labels as labels_of
from fairbandit.environments import Encoder
from fairbandit.errors import FairbanditError, shown
from fairbandit.logs import Floats
from fairbandit.logs.events import Observed
from fairbandit.tables.labels import JOINED, check_labels, pool_codes
from fairbandit.tables.reading import read_table


@contextmanager
def of_pool(at: int) -> Iterator[None]:
    """Re-raises errors of a block with the number of the pool in their messages."""
    try:
        yield
    except FairbanditError as error:
        raise FairbanditError(f"pool {at}: {error}") from error


class Reader(NamedTuple):
    """Reads pools of candidates with d features.

    Attributes:
        features: d.
        encoder: the encoder of raw rows, or None.
        names: the names of the features, or None.
    """

    features: int
    encoder: Encoder | None
    names: tuple[str, ...] | None

    def pool(self, contexts: Any, groups: Any) -> tuple[Floats, list[Any]]:
        """Returns a pool's contexts, (K, d) float64, as a copy, and its K labels.

        Raises:
            FairbanditError: wrong shapes, an empty pool, values that are not finite, or a label
                that contradicts the encoder's features of the group.
        """
        contexts, groups = self._encoded(contexts, groups)
        array = numbers(contexts, "contexts")
        if array.ndim != 2 or array.shape[1] != self.features or not len(array):
            raise self._wrong_shape(array, "contexts")
        labels = labels_of(groups)
        if len(labels) != len(array):
            raise FairbanditError(
                f"groups: expected {len(array)} labels, one per candidate; got {len(labels)}"
            )
        if self.encoder is not None:
            self.encoder.check_labels(labels, array)
        return np.array(array, dtype=np.float64), labels

    def pools(
        self, contexts: Any, groups: Any, pools: Any = None
    ) -> tuple[list[Floats], list[list[Any]]]:
        """Returns the contexts (Kᵢ, d), as copies, and the Kᵢ labels of each of N pools.

        Args:
            contexts, groups: the pools, or with `pools` the candidates of all pools.
            pools: see `Agent.act_many`.
        """
        if pools is not None:
            contexts, groups = self._split(contexts, groups, pools)
        return self._checked(*self._encoded(contexts, groups, 3))

    def observed(self, contexts: Any, groups: Any, actions: Any, rewards: Any) -> Observed:
        """Returns logged rounds as an event; each row of a table is a pool of one candidate.

        Raises:
            FairbanditError: shapes that do not match, contexts or rewards that are not finite,
                actions that are not integers from 0 to Kᵢ − 1, or the index of a column is not the
                index of the table.
        """
        table = _is_table(contexts)
        check_index(contexts, groups=groups, actions=actions, rewards=rewards)
        where = "the observed rows"
        contexts, groups = self._encoded(contexts, groups, 2 if table else 3, where)
        if table:
            contexts = numbers(contexts, "contexts")[:, None]
            groups = [[label] for label in labels_of(groups)]
        pools, labels = self._checked(contexts, groups)
        n = len(pools)
        if actions is None and all(len(pool) == 1 for pool in pools):
            actions = [0] * n
        if actions is None:
            raise FairbanditError(
                "actions: expected the place of the pick, as pools have several places"
            )
        if rewards is None:
            raise FairbanditError("rewards: expected the reward of each round, rewards=...")
        places, received = numbers(actions, "actions"), numbers(rewards, "rewards")
        if not places.shape == received.shape == (n,):
            raise FairbanditError(
                f"expected actions and rewards of {n} rounds, like the contexts; got "
                f"{places.shape} and {received.shape}"
            )
        if n and places.dtype.kind not in "iu":
            raise FairbanditError(f"actions: expected whole numbers, got {places.dtype}")
        for at, (rows, place) in enumerate(zip(pools, places.tolist(), strict=True)):
            if not 0 <= place < len(rows):
                raise FairbanditError(
                    f"expected an action from 0 to {len(rows) - 1} in pool {at}; got action {place}"
                )
        rewards = received.astype(np.float64).tolist()
        return Observed(contexts=pools, groups=labels, actions=places.tolist(), rewards=rewards)

    def _encoded(
        self, contexts: Any, groups: Any, ndim: int = 2, where: str = "the pool"
    ) -> tuple[Any, Any]:
        """Encodes a pool of raw rows, or a list of such pools if `ndim` is 3; keeps arrays.

        Messages call the rows `where`.

        Returns:
            The contexts and the groups; for raw rows whose `groups` are None, the rows' own labels.

        Raises:
            FairbanditError: a label that contradicts its row, or a table whose columns are not the
                names, without an encoder.
        """
        if isinstance(contexts, (np.ndarray, Tensor)):
            return contexts, groups
        is_list = isinstance(contexts, (list, tuple))
        if ndim == 3 and is_list:
            n, pools = len(contexts), list[tuple[Any, Any]]()
            given = [None] * n if groups is None else labels_by_pool(groups, n)
            for at, pool in enumerate(zip(contexts, given, strict=True)):
                with of_pool(at):
                    check_index(pool[0], groups=groups[at] if isinstance(groups, list) else None)
                    pools.append(self._encoded(*pool, where=where))
            return [rows for rows, _ in pools], [pool for _, pool in pools]
        if is_list and (
            self.encoder is None or not any(isinstance(row, Mapping) for row in contexts)
        ):
            return contexts, groups
        check_index(contexts, groups=groups)
        if ndim == 3 and _is_table(contexts):
            raise FairbanditError(
                "contexts: expected an array or a list of pools, got one table; "
                "act_many(table, labels, pools=COLUMN) takes a column that says the pool of each "
                "row"
            )
        if self.encoder is None:
            columns = getattr(contexts, "column_names", getattr(contexts, "columns", None))
            if columns is not None and list(columns) != list(self.names or ()):
                raise FairbanditError(
                    f"contexts: the columns are {shown(list(columns))}; an agent takes a table "
                    "only if these are its features, in this order: "
                    f"features={shown(list(self.names or columns))}"
                )
            return contexts, groups
        features, forms = self.encoder.labelled(contexts, where, needed=groups is None)
        labels = forms if groups is None else labels_of(groups)
        check_labels(labels, forms, JOINED.join(self.encoder.groups), self.encoder.unknown)
        return features, labels

    def _checked(self, contexts: Any, groups: Any) -> tuple[list[Floats], list[list[Any]]]:
        """Returns the contexts (Kᵢ, d), as copies, and the Kᵢ labels of N encoded pools."""
        if isinstance(contexts, (list, tuple)):
            arrays = [numbers(rows, f"contexts[{at}]") for at, rows in enumerate(contexts)]
        else:
            arrays = list(np.atleast_1d(numbers(contexts, "contexts")))
        labels = labels_by_pool(groups, len(arrays))
        for at, (rows, names) in enumerate(zip(arrays, labels, strict=True)):
            if rows.ndim != 2 or rows.shape[1] != self.features or not len(rows):
                raise self._wrong_shape(rows, f"contexts[{at}]")
            if len(names) != len(rows):
                raise FairbanditError(
                    f"groups[{at}]: expected {len(rows)} labels, one per candidate; got "
                    f"{len(names)} (the labels of several columns are a tuple for each candidate, "
                    "or for pools of one candidate the table of these columns)"
                )
        if self.encoder is not None and self.encoder.labels and arrays:
            row_labels = iter(self.encoder.labels_in(np.concatenate(arrays)))
            for at, names in enumerate(labels):
                with of_pool(at):
                    forms, column = islice(row_labels, len(names)), JOINED.join(self.encoder.groups)
                    check_labels(names, forms, column, self.encoder.unknown)
        return [np.array(rows, dtype=np.float64) for rows in arrays], labels

    def _split(
        self, contexts: Any, groups: Any, pools: Any
    ) -> tuple[list[NDArray[Any]], list[list[Hashable]]]:
        """Splits R candidates into pools, in the order of the pools' first candidates."""
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
            if self.encoder is None:  # encoders ignore other columns
                table = table.drop(columns=sorted({*named.values()} - {*(self.names or ())}))
            contexts = table
        rows, labels = self._encoded(contexts, groups)
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

    def _wrong_shape(self, array: NDArray[Any], what: str) -> FairbanditError:
        d = self.features
        if not array.size:
            return FairbanditError(f"{what}: the pool is empty; expected at least one candidate")
        return FairbanditError(
            f"{what}: expected shape (K, {d}) with K of at least 1, a row of {d} features per "
            f"candidate; got shape {array.shape}"
        )


def _is_table(contexts: Any) -> bool:
    return hasattr(contexts, "columns") or isinstance(contexts, Mapping)


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


def rewards_of(
    places: Sequence[int], waiting: Sequence[int], ticket: int, reward: Any, candidate: Any
) -> float | dict[int, float]:
    """Returns the reward of a single pick, or rewards by place.

    Args:
        places: the places of all picks, in order of preference.
        waiting: the places that wait for a reward.
        ticket: the ticket, for messages.
        reward, candidate: see `Agent.update`.

    Raises:
        FairbanditError: rewards that are not finite, a wrong number of rewards, or a candidate that
            does not wait for a reward.
    """
    if len(places) == 1 and candidate is None and not isinstance(reward, Mapping):
        return _reward(reward, ticket)
    rewards = reward.tolist() if hasattr(reward, "tolist") else reward
    if candidate is not None:
        rewards = {whole(candidate, "candidate"): reward}
    elif isinstance(rewards, (list, tuple)) and len(rewards) == len(places):
        rewards = dict(zip(places, rewards, strict=True))
    if not isinstance(rewards, Mapping) or not rewards:
        raise FairbanditError(
            f"ticket {ticket} has {len(places)} picks: name the candidate of a reward, "
            f"update(reward, ticket, candidate={places[0]}), or give a list with all rewards "
            f"in the order of decision.picks; got {shown(reward)}"
        )
    if wrong := [place for place in rewards if place not in waiting]:
        raise FairbanditError(
            f"candidate {shown(wrong[0])} of ticket {ticket} does not wait for a reward; "
            f"waiting candidates: {', '.join(map(str, waiting))}"
        )
    return {int(place): _reward(given, ticket) for place, given in rewards.items()}


def _reward(given: Any, ticket: int) -> float:
    try:
        return number(given, "reward")
    except FairbanditError as error:
        raise FairbanditError(
            f"{error}; a ticket whose reward is not known waits until agent.drop({ticket})"
        ) from error

"""Reads the pools that callers give: arrays, lists, tables and raw rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from fairbandit.agent.inputs import check_index, listed, numbers
from fairbandit.agent.inputs import features as checked_features
from fairbandit.agent.inputs import groups as first_groups
from fairbandit.agent.inputs import labels as labels_of
from fairbandit.environments import Encoder
from fairbandit.errors import FairbanditError, shown
from fairbandit.logs import Floats
from fairbandit.logs.events import Observed
from fairbandit.logs.schema import described
from fairbandit.tables.labels import JOINED, Codes, check_labels, pool_codes
from fairbandit.tables.reading import read_table


@contextmanager
def of_pool(at: int) -> Iterator[None]:
    """Re-raises errors of a block with the number of the pool in their messages."""
    try:
        yield
    except FairbanditError as error:
        raise FairbanditError(f"pool {at}: {error}") from error


class Reader(NamedTuple):
    """Reads pools of candidates with d features, with their names, if they have any."""

    features: int
    encoder: Encoder | None
    names: tuple[str, ...] | None
    reward: str | None = None

    def pool(self, contexts: Any, groups: Any, where: str = "the pool") -> tuple[Floats, list[Any]]:
        """Returns a pool's contexts, (K, d) float64, as a copy, and its K labels."""
        forms: list[Any] | None = None
        if not isinstance(contexts, (np.ndarray, Tensor)):
            check_index(contexts, groups=groups)
            contexts, forms = self._encoded(contexts, groups is None, where)
        array = numbers(contexts, "contexts")
        if not array.size:
            raise FairbanditError("contexts: the pool is empty; expected at least one candidate")
        if array.ndim != 2 or array.shape[1] != self.features:
            raise FairbanditError(
                f"contexts: expected shape (K, {self.features}), a row of {self.features} features "
                f"per candidate; got shape {array.shape}"
            )
        labels = forms if groups is None and forms is not None else labels_of(groups)
        if len(labels) != len(array):
            raise FairbanditError(
                f"groups: expected {len(array)} labels, one per candidate; got {len(labels)}"
            )
        if self.encoder is not None:
            forms = self.encoder.labels_in(array) if forms is None else forms
            check_labels(labels, forms, JOINED.join(self.encoder.groups), self.encoder.unknown)
        return np.array(array, dtype=np.float64), labels

    def pools(
        self, contexts: Any, groups: Any, pools: Any = None, where: str = "the pool"
    ) -> tuple[list[Floats], list[list[Any]]]:
        """Returns the contexts (Kᵢ, d), as copies, and the Kᵢ labels of each of N pools."""
        if pools is not None:
            return self._split(contexts, groups, pools)
        if _is_table(contexts):
            raise FairbanditError(
                "contexts: expected an array or a list of pools, got one table; "
                "act_many(table, labels, pools=COLUMN) takes a column that says the pool of each "
                "row"
            )
        if not isinstance(contexts, (list, tuple)):
            contexts = numbers(contexts, "contexts")
            if contexts.ndim < 2:
                raise FairbanditError(
                    f"contexts: expected an array of pools, (N, K, d), got shape {contexts.shape}"
                )
        if hasattr(groups, "itertuples"):
            groups = [[label] for label in labels_of(groups)]
        expected = "one list of labels for each pool"
        of_pools = [None] * len(contexts) if groups is None else listed(groups, "groups", expected)
        if len(of_pools) != len(contexts):
            raise FairbanditError(
                f"groups: expected the labels of {len(contexts)} pools, like the contexts; got "
                f"{len(of_pools)} pools"
            )
        read = list[tuple[Floats, list[Any]]]()
        for at, pool in enumerate(zip(contexts, of_pools, strict=True)):
            with of_pool(at):
                read.append(self.pool(*pool, where))
        return [x for x, _ in read], [labels for _, labels in read]

    def observed(self, contexts: Any, groups: Any, actions: Any, rewards: Any) -> Observed:
        """Returns logged rounds as an event; each row of a table is a pool of one candidate."""
        where = "the observed rows"
        if _is_table(contexts):
            check_index(contexts, actions=actions, rewards=rewards)
            x, labels = self.pool(contexts, groups, where)
            pools, names = list(x[:, None]), [[label] for label in labels]
        else:
            pools, names = self.pools(contexts, groups, where=where)
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
        return Observed(contexts=pools, groups=names, actions=places.tolist(), rewards=rewards)

    def _encoded(self, rows: Any, needed: bool, where: str) -> tuple[Any, list[Any] | None]:
        """Returns the features of raw rows with their labels; other values stay as they are."""
        plain = isinstance(rows, (list, tuple)) and not any(isinstance(r, Mapping) for r in rows)
        if self.encoder is not None and not plain:
            return self.encoder.labelled(rows, where, needed)
        columns = getattr(rows, "column_names", getattr(rows, "columns", None))
        if columns is not None and list(columns) != list(self.names or ()):
            raise FairbanditError(
                f"contexts: the columns are {shown(list(columns))}; an agent takes a table "
                "only if these are its features, in this order: "
                f"features={shown(list(self.names or columns))}"
            )
        return rows, None

    def _split(
        self, contexts: Any, groups: Any, pools: Any
    ) -> tuple[list[Floats], list[list[Any]]]:
        check_index(contexts, pools=pools)
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
        (x, labels), pool_of_row = self.pool(contexts, groups), listed(pools, "pools")
        if len(pool_of_row) != len(labels):
            raise FairbanditError(
                f"pools: expected the pools of {len(labels)} candidates, got {len(pool_of_row)}"
            )
        codes = pool_codes(pool_of_row)
        *places, _ = np.split(codes.argsort(kind="stable"), np.bincount(codes).cumsum())
        return [x[at] for at in places], [[labels[row] for row in at] for at in places]


def _is_table(contexts: Any) -> bool:
    return hasattr(contexts, "columns") or isinstance(contexts, Mapping)


def reader(features: Any, reward: str | None, groups: Any, unknown: Any) -> tuple[Reader, Codes]:
    """Returns the reader and the first groups of an agent, whose arguments it checks."""
    encoder, names, d = described(checked_features(features))
    words = encoder.unknown if encoder else ()
    codes = first_groups(groups, [*listed(unknown, "unknown"), *words])
    return Reader(d, encoder, names, reward), codes

"""Logged decisions as arrays."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairbandit.errors import FairbanditError, type_of
from fairbandit.logs.schema import Schema, unnamed
from fairbandit.streams import CHUNK_ROUNDS
from fairbandit.tables.encoder import Encoder
from fairbandit.tables.labels import normal

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


FLAGS = ("adaptive", "draws_models")
"""The properties of a log that a table holds as columns of truth values."""

_OF_CANDIDATES = "groups", "contexts", "probabilities", "scores"
_OF_DECISIONS = "sizes", "picks", "rewards", "propensities", "names", "ids", "about", "pick_scores"

PIECE = 4 * CHUNK_ROUNDS  # the largest number of decisions that are padded together

ROOM = 1 << 13
"""The number of places that a padded array may have in addition to twice its candidates."""


def pieces(sizes: Ints, most: int, first: int = 0) -> Iterator[slice]:
    """Cuts pools into pieces of at most `most`, halved until padding leaves few empty places."""
    n = len(sizes)
    if n > most or n * sizes.max(initial=0) > 2 * sizes.sum() + ROOM:
        step = most if n > most else (n + 1) // 2
        for low in range(0, n, step):
            yield from pieces(sizes[low : low + step], most, first + low)
    elif n:
        yield slice(first, first + n)


def padded(sizes: Ints, values: NDArray[Any], empty: Any) -> NDArray[Any]:
    """Returns rows of consecutive pools, (Σ sizes, …), as an array (n, K, …)."""
    present = np.arange(sizes.max(initial=0)) < sizes[:, None]
    array = np.full((*present.shape, *values.shape[1:]), empty, values.dtype)
    array[present] = values
    return array


def pick_key(
    name: Any, labels: Sequence[str], contexts: Floats | None, place: int, reward: float
) -> int:
    """Returns an 8-byte hash of a pick: its decision's name and pool, its place and its reward."""
    x = b"" if contexts is None else (contexts + 0.0).tobytes()  # + 0.0 turns −0 into 0
    data = repr((str(name), labels, place, reward + 0.0)).encode() + x
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big", signed=True)


def check_log(given: Any, remedy: str = "") -> None:
    """Raises an error for anything but a log, such as the table that it is read from."""
    if not isinstance(given, Log):
        raise FairbanditError(
            f"expected a Log, got {type_of(given)}; read_log(source, …) makes one{remedy}"
        )


@dataclass(frozen=True, eq=False)
class Log:
    """n decisions, each of m picks from a pool, and the R candidates of all pools.

    Values of candidates are rows, one pool after another, so that one large pool costs no more than
    its own rows. `padded` returns them by pool.

    Attributes:
        sizes: the number of candidates of each pool, (n,), which is at least 1.
        groups: the number of each candidate's group, (R,).
        labels: the groups' labels, by number.
        picks: the places picked, in order of preference, (n, m); −1 for an empty slot.
        rewards: the rewards of the picks, (n, m); NaN if unknown.
        propensities: the probability with which each pick was picked, (n, m); NaN if unknown.
        contexts: the features of the candidates, (R, d); None if the log leaves them out.
        probabilities: the probability of each candidate to be picked, (R,); None if only
            `propensities` are known.
        features: the names of the d features; x0, x1, … stand for features without names.
        names: the names of the n decisions.
        scores: a score of each candidate, (R,), NaN if unknown; None without scores.
        group_columns: the group columns of a table by name, each with the label of every group.
        adaptive: whether decisions depend on earlier rewards, as decisions of a learning agent do.
        draws_models: whether probabilities are conditional on a draw of the model, as in posterior
            sampling; they are not propensities then.
        encoder: the encoder of the features, if a table was read.
        reward: the name of the reward, or None.
        notes: the notices of reading, for example on lines that are left out.
        policies: the names of the policies that decided, if known.
        period: the times of the first and the last decision, in UTC; None if unknown, and for some
            of the decisions.
        ids, about: the ids and the remarks that the callers of an agent gave to its decisions, (n,)
            each, with None and {} for none; None for logs of other kinds.
        pick_scores: the scores of the picks by which propensities were estimated, (n, q), scaled so
            that SᵀS = I; None if propensities are not estimated. See `propensities`.
    """

    sizes: Ints
    groups: Ints
    labels: tuple[Hashable, ...]
    picks: Ints
    rewards: Floats
    propensities: Floats
    contexts: Floats | None
    probabilities: Floats | None
    features: tuple[str, ...]
    names: Sequence[Any]
    scores: Floats | None = None
    group_columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    adaptive: bool = False
    draws_models: bool = False
    encoder: Encoder | None = None
    reward: str | None = None
    notes: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    period: tuple[str, str] | None = None
    ids: NDArray[np.object_] | None = None
    about: NDArray[np.object_] | None = None
    pick_scores: Floats | None = None

    def __len__(self) -> int:
        return len(self.sizes)

    def __repr__(self) -> str:
        """The numbers of decisions, candidates, groups and features; `frame` has the values."""
        return (
            f"<Log of {len(self):,} decisions, {len(self.groups):,} candidates, "
            f"{len(self.labels):,} groups and {len(self.features):,} features>"
        )

    def __getitem__(self, rows: Any) -> Log:
        """Returns some decisions: a slice, places or truth values."""
        sizes, starts = self.sizes[rows], self.starts[rows]
        places = np.repeat(starts - sizes.cumsum() + sizes, sizes) + np.arange(sizes.sum())
        taken = dict.fromkeys(_OF_CANDIDATES, places) | dict.fromkeys(_OF_DECISIONS, rows)
        parts = {key: getattr(self, key) for key in taken if getattr(self, key) is not None}
        cut: Any = {key: np.asarray(part)[taken[key]] for key, part in parts.items()}
        return replace(self, **cut, period=None)

    @cached_property
    def starts(self) -> Ints:
        """The row of each pool's first candidate, (n,)."""
        return np.asarray(self.sizes.cumsum() - self.sizes)

    @cached_property
    def decisions(self) -> Ints:
        """The decision of each candidate, (R,)."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @cached_property
    def slots(self) -> Ints:
        """The number of picks of each decision, (n,)."""
        return np.asarray((self.picks >= 0).sum(1))

    @property
    def missing(self) -> float:
        """The share of the picks without a known reward."""
        picked = self.picks >= 0
        return float((np.isnan(self.rewards) & picked).sum() / max(picked.sum(), 1))

    @cached_property
    def picked(self) -> NDArray[np.bool_]:
        """Whether each candidate was picked, (R,)."""
        return self.at_places(np.ones(self.picks.shape, np.bool_), False)

    @property
    def schema(self) -> Schema:
        """The properties by which an agent is compared with the log."""
        d, labels = len(self.features), tuple(map(normal, self.labels))
        names = None if self.features == unnamed(d) else self.features
        return Schema(d, names, self.encoder, labels, self.reward)

    @cached_property
    def pick_keys(self) -> list[tuple[int, int]]:
        """The keys of the picks whose rewards are known, with and without names; see `pick_key`."""
        forms, keys = [normal(label) for label in self.labels], list[tuple[int, int]]()
        for row, slot in np.argwhere(~np.isnan(self.rewards)).tolist():
            pool = slice(self.starts[row], self.starts[row] + self.sizes[row])
            labels = [forms[code] for code in self.groups[pool].tolist()]
            x = None if self.contexts is None else self.contexts[pool]
            pick = labels, x, int(self.picks[row, slot]), float(self.rewards[row, slot])
            name, nameless = self.names[row], pick_key("", *pick)
            keys.append((nameless if name == "" else pick_key(name, *pick), nameless))
        return keys

    @property
    def attributes(self) -> dict[str, tuple[Ints, tuple[str, ...]]]:
        """The groups of each group column by itself: their numbers, (R,), and labels."""
        attributes = dict[str, tuple[Ints, tuple[str, ...]]]()
        for name, label_of_group in self.group_columns.items():
            labels, codes = np.unique(label_of_group, return_inverse=True)
            attributes[name] = codes[self.groups], tuple(labels.tolist())
        return attributes

    def at_picks(self, values: NDArray[Any]) -> NDArray[Any]:
        """Gathers values of candidates, (R, …), at the picks, (n, m, …); place 0 if empty."""
        return np.asarray(values[self.starts[:, None] + self.picks.clip(min=0)])

    def at_places(self, values: NDArray[Any], empty: Any) -> NDArray[Any]:
        """Scatters values (n, m) of the picks to all candidates, (R,); others are `empty`."""
        scattered = np.full(len(self.decisions), empty, values.dtype)
        filled = self.picks >= 0
        scattered[(self.starts[:, None] + self.picks)[filled]] = values[filled]
        return scattered

    def sums(self, values: NDArray[Any]) -> NDArray[Any]:
        """Sums values of candidates, (R, …), by decision, (n, …); counts truth values."""
        return np.add.reduceat(values + 0, self.starts)

    def padded(self, values: NDArray[Any], empty: Any) -> NDArray[Any]:
        """Returns values of candidates, (R, …), as an array (n, K, …) with empty places."""
        return padded(self.sizes, values, empty)

    @property
    def frame(self) -> pd.DataFrame:
        """The log as a pandas table with a row for each candidate.

        The columns are `decision, group, picked, propensity, reward`, then the features and the
        score, and `adaptive` and `draws_models` if true. A feature that is called like one of them
        stands in brackets. A propensity is NaN if unknown. For shortlists, `picked` is 1 for the
        first pick, 2 for the second, …, and 0 for the other candidates.
        """
        import pandas as pd

        order, chances = self.picked, self.probabilities
        if chances is None:
            chances = self.at_places(self.propensities, np.nan)
        if (m := self.picks.shape[1]) > 1:
            order = self.at_places(np.broadcast_to(np.arange(m) + 1, self.picks.shape), 0)
        table: dict[str, Any] = {
            "decision": np.asarray(self.names)[self.decisions],
            "group": np.array([*self.labels, None], dtype=object)[self.groups],
            "picked": order,
            "propensity": chances,
            "reward": self.at_places(self.rewards, np.nan),
        }
        taken = {*table, "score", *FLAGS}
        names = [name if name not in taken else f"({name})" for name in self.features]
        if self.contexts is not None:
            table |= dict(zip(names, self.contexts.T, strict=True))
        if self.scores is not None:
            table["score"] = self.scores
        table |= {name: True for name in FLAGS if getattr(self, name)}
        return pd.DataFrame(table)

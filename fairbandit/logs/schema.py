"""Schemas, by which an agent and a log are compared where they meet, and hashes of decisions.

A decision is recognised by its picks whose rewards are known. Each has two hashes: one of its
content, which is the labels of the pool in their order, the place picked and the reward; and one of
the content with the name of the decision. Neither depends on how features are encoded, on the file
or its format, so that hashes are the same in copies, exports and logs with erased decisions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from fairbandit.environments.encoder import Encoder
from fairbandit.environments.reading import listed
from fairbandit.errors import FairbanditError
from fairbandit.formats import fitted
from fairbandit.labels import normal

NONE = np.zeros((0, 2), np.int64)

KEPT = 1_024
"""So many hashes are remembered: the least ones, which are a random sample of all."""


def unnamed(width: int) -> tuple[str, ...]:
    """What stands for the names of d features without names: x0, x1, …"""
    return tuple(f"x{column}" for column in range(width))


def described(given: Encoder | Sequence[str] | int) -> tuple[Encoder | None, Any, int]:
    """The encoder and the names of some features, None where there are none, and their number."""
    if isinstance(given, int):
        return None, None, given
    encoder = given if isinstance(given, Encoder) else None
    names = tuple(given.names if isinstance(given, Encoder) else given)
    return encoder, names, len(names)


def pool_key(forms: Iterable[str]) -> str:
    """What stands for the normal forms of a pool's labels in the hashes of its decision."""
    return blake2b("\n".join(forms).encode(), digest_size=8).hexdigest()


def pick_hashes(name: Any, pool: str, place: int, reward: float) -> tuple[int, int]:
    """The hashes of a pick: of its content, and of that with the name of the decision."""
    content = f"{pool} {place} {reward + 0.0:.9g}"  # digits that survive a table of texts
    return _hash(content), _hash(f"{content} {normal(name)}")


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)


class Learned(NamedTuple):
    """The decisions whose rewards an agent has learned, as hashes; a value of bounded size.

    Attributes:
        picks: how many picks there were.
        least: the least of their hashes, (n, 2), in memory that nobody writes to.
        latest: hashes that are not yet among these.
    """

    picks: int = 0
    least: NDArray[np.int64] = NONE
    latest: tuple[tuple[int, int], ...] = ()

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Self:
        """The value that gave a state; a `ValueError` if none does."""
        read = fitted(state, cls().state())
        return cls(read["picks"], read["hashes"].numpy())

    def state(self) -> dict[str, Any]:
        """The value as plain data."""
        return {"picks": self.picks, "hashes": torch.from_numpy(self.kept)}

    @property
    def kept(self) -> NDArray[np.int64]:
        """The hashes that are kept, (n, 2)."""
        return np.concatenate([self.least, np.array(self.latest, np.int64).reshape(-1, 2)])

    def add(self, hashes: Iterable[tuple[int, int]] | NDArray[np.int64]) -> Learned:
        """With further picks."""
        new = tuple(hashes)
        grown = Learned(self.picks + len(new), self.least, self.latest + new)
        if len(grown.latest) <= 64:
            return grown
        every = grown.kept
        return Learned(grown.picks, every[every[:, 1].argsort(kind="stable")[:KEPT]])

    def recognised(self, hashes: NDArray[np.int64]) -> str:
        """Says how many of n picks were learned from, if these are more than alike by chance.

        By chance, two picks are alike as often as two of these are: for rewards of few values,
        their names decide.

        Args:
            hashes: of the picks, (n, 2).

        Returns:
            Words for a message, or "".
        """
        n, kept = len(hashes), self.kept
        if not n or not len(kept):
            return ""
        counts = np.unique(hashes[:, 0], return_counts=True)[1]
        alike = float((counts * (counts - 1)).sum()) / max(n * (n - 1), 1)
        share = len(kept) / self.picks
        for column, chance in enumerate((min(1.0, alike * len(kept)), alike * share)):
            found = int(np.isin(hashes[:, column], kept[:, column]).sum())
            if found > n * chance + 4 * math.sqrt(n * chance) + 2:
                return f"{found:,} of its {n:,} picks with a reward" + (
                    f" (of a sample of {share:.1%})" if share < 1 else ""
                )
        return ""


class Schema(NamedTuple):
    """What an agent and a log are compared by.

    Attributes:
        width: the number d of features.
        names: of the features, in order; None for arrays without names.
        encoder: what makes features of raw rows, or None.
        labels: the normal forms of the groups' labels.
        reward: the name of the reward, or None where it has none.
        decisions: those that an agent has learned from; None for a log.
    """

    width: int
    names: tuple[str, ...] | None
    encoder: Encoder | None
    labels: tuple[str, ...]
    reward: str | None
    decisions: Learned | None = None

    def check_log(self, log: Schema, hashes: NDArray[np.int64], name: str) -> Iterator[str]:
        """Compares the schema of an agent with that of a log that it is to decide.

        Args:
            log: the schema of the log.
            hashes: of its picks, (n, 2).
            name: what messages call the agent.

        Yields:
            What could not be compared, or differs without harm.

        Raises:
            FairbanditError: other features, another order of these, another encoder, a group that
                the agent does not know, or decisions that it has learned from.
        """
        if None not in (self.names, log.names):
            if self.names != log.names:
                raise FairbanditError(
                    f"{name} takes the features {_names(self)}, and the log has {_names(log)}; "
                    "read the log with like=… or features=[…] so that it has these, in this order"
                )
        elif self.width != log.width:
            raise FairbanditError(
                f"{name} takes {self.width} features, and the log has {log.width}: {_names(log)}"
            )
        else:
            which = "the log's" if log.names is None else f"{name}'s"
            yield f"{which} features have no names: they are compared by their number alone"
        if self.encoder and log.encoder and self.encoder != log.encoder:
            raise FairbanditError(
                f"{name} takes features standardised by another table than the log: read the log "
                "as read_log(…, like=agent.encoder), or like the log that the agent learned from"
            )
        unknown = [repr(one) for one in log.labels if one not in self.labels]
        if unknown and self.labels:
            raise FairbanditError(
                f"the log has groups that {name} does not know: {listed(unknown)}; it knows "
                f"{listed([*map(repr, self.labels)])}"
            )
        if None not in (self.reward, log.reward) and self.reward != log.reward:
            yield f"{name} has learned from {self.reward!r}, and the log's reward is {log.reward!r}"
        if self.decisions and (found := self.decisions.recognised(hashes)):
            raise FairbanditError(
                f"{name} has learned from this log, which would flatter it: {found} are known to "
                "it. Judge it by decisions that it has not seen, or give its policy, which is "
                "trained on a part of the log"
            )


def _names(one: Schema) -> str:
    return listed([*map(repr, one.names)]) if one.names else "x0, x1, … without names"

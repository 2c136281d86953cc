"""Schemas, by which an agent and a log are compared where they meet, and hashes of decisions.

A decision is recognised by its picks whose rewards are known. Each pick has three hashes: of its
outcome, which is the labels of the pool in their order, the place picked and the reward; of the
outcome and the name of the decision; and of its context, in single precision. So a pick is
recognised in copies, exports and logs with erased decisions, where rewards are rounded or in other
units, and where features are encoded anew or decisions are renamed.
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

NONE = np.zeros((0, 3), np.int64)

KEPT = 1_024
"""How many hashes an agent remembers: the least of all, which are a random sample of them."""


def unnamed(width: int) -> tuple[str, ...]:
    """Placeholders for the names of d features that have none: x0, x1, …"""
    return tuple(f"x{column}" for column in range(width))


def described(given: Encoder | Sequence[str] | int) -> tuple[Encoder | None, Any, int]:
    """The encoder and the names of some features, None where there are none, and their number."""
    if isinstance(given, int):
        return None, None, given
    encoder = given if isinstance(given, Encoder) else None
    names = tuple(given.names if isinstance(given, Encoder) else given)
    return encoder, names, len(names)


def pool_key(forms: Iterable[str]) -> str:
    """A hash of the labels of a pool, in their normal forms and in their order."""
    return blake2b("\n".join(forms).encode(), digest_size=8).hexdigest()


def pick_hashes(
    name: Any, pool: str, place: int, reward: float, context: NDArray[np.float64] | None
) -> tuple[int, int, int]:
    """The hashes of a pick: of its outcome, of this with the decision's name, of its context."""
    outcome = f"{pool} {place} {reward + 0.0:.9g}".encode()  # digits that survive as text
    x = b"" if context is None else (context + 0.0).clip(-3e38, 3e38).astype(np.float32).tobytes()
    return _hash(outcome), _hash(b"%s %s" % (outcome, normal(name).encode())), _hash(x)


def _hash(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big", signed=True)


class Learned(NamedTuple):
    """The decisions whose rewards an agent has learned, as hashes; a value of bounded size.

    Attributes:
        picks: how many picks there were.
        least: the least hashes of these picks, (n, 3), in memory that is never written to.
        latest: hashes that have not been merged into `least` yet.
    """

    picks: int = 0
    least: NDArray[np.int64] = NONE
    latest: tuple[tuple[int, int, int], ...] = ()

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
        """The hashes that are kept, (n, 3)."""
        return np.concatenate([self.least, np.array(self.latest, np.int64).reshape(-1, 3)])

    def add(self, hashes: Iterable[tuple[int, int, int]] | NDArray[np.int64]) -> Learned:
        """With further picks."""
        new = tuple(hashes)
        grown = Learned(self.picks + len(new), self.least, self.latest + new)
        if len(grown.latest) <= 64:
            return grown
        every = grown.kept
        return Learned(grown.picks, every[every[:, 1].argsort(kind="stable")[:KEPT]])

    def recognised(self, hashes: NDArray[np.int64]) -> str:
        """Counts the picks of a log that were learned from, if chance does not explain them.

        The chance that two picks have an equal hash is estimated by how often two picks of the log
        have; the names of two picks are taken to be equal.

        Args:
            hashes: of the n picks, (n, 3).

        Returns:
            The count as words for a message, or "".
        """
        n, kept = len(hashes), self.kept
        if not n or not len(kept):
            return ""
        share, of_name = len(kept) / self.picks, 0.0
        for own, other in zip(hashes.T, kept.T, strict=True):
            counts = np.unique(own, return_counts=True)[1]
            alike = float((counts * (counts - 1)).sum()) / max(n * (n - 1), 1)
            chance = min(1.0, alike * len(kept) + of_name)
            of_name = alike * share  # of the outcome, which the next hash reads with the name
            found = int(np.isin(own, other).sum())
            if found > n * chance + 4 * math.sqrt(n * chance) + 2:
                return f"{found:,} of its {n:,} picks with a reward" + (
                    f" (of a sample of {share:.1%})" if share < 1 else ""
                )
        return ""


class Schema(NamedTuple):
    """The properties by which an agent and a log are compared.

    Attributes:
        width: the number d of features.
        names: of the features, in order; None for arrays without names.
        encoder: the encoder that made them of a table, or None.
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
        """Compares the schema of an agent with the schema of a log that it is to decide.

        Args:
            log: the schema of the log.
            hashes: of its picks, (n, 3).
            name: what messages call the agent.

        Yields:
            Notes on features that cannot be compared, or differences that do no harm.

        Raises:
            FairbanditError: other features or another order, another encoder, a group that the
                agent does not know, or decisions that it has learned from.
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
        if (self.encoder is None) != (log.encoder is None):
            yield f"{name} and the log: only one of them says how its features are standardised"
        elif self.encoder != log.encoder:
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

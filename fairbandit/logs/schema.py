"""Schemas, which an agent and a log are compared by, and hashes that recognise decisions.

A pick whose reward is known has three hashes: of its outcome, which is the labels of its pool in
order, its place and its reward; of the outcome and the decision's name; and of its context in
single precision. One of them survives in copies, exports and logs with erased decisions, if rewards
are rounded or in other units, if features are encoded anew, or if decisions are renamed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from fairbandit.errors import FairbanditError
from fairbandit.files.formats import fitted
from fairbandit.notices import listed
from fairbandit.tables.encoder import Encoder
from fairbandit.tables.labels import normal

NONE = np.zeros((0, 3), np.int64)

KEPT = 1_024
"""The number of hashes that an agent keeps: the least ones, which are a random sample."""


def unnamed(width: int) -> tuple[str, ...]:
    """Returns placeholders for the names of features: x0, x1, …"""
    return tuple(f"x{column}" for column in range(width))


def described(given: Encoder | Sequence[str] | int) -> tuple[Encoder | None, Any, int]:
    """Returns the encoder, the names and the number of features; None if unknown."""
    if isinstance(given, int):
        return None, None, given
    names = tuple(given.names if isinstance(given, Encoder) else given)
    return given if isinstance(given, Encoder) else None, names, len(names)


def pool_key(forms: Iterable[str]) -> str:
    """Returns a hash of the normal forms of a pool's labels, in order."""
    return blake2b("\n".join(forms).encode(), digest_size=8).hexdigest()


def pick_hashes(
    name: Any, pool: str, place: int, reward: float, context: NDArray[np.float64] | None
) -> tuple[int, int, int]:
    """Returns the hashes of a pick's outcome, named outcome and context."""
    outcome = f"{pool} {place} {reward + 0.0:.9g}".encode()  # digits that survive as text
    x = b""
    if context is not None:  # + 0.0 turns −0 into 0
        x = np.minimum(np.maximum(context + 0.0, -3e38), 3e38).astype(np.float32).tobytes()
    return _hash(outcome), _hash(b"%s %s" % (outcome, normal(name).encode())), _hash(x)


def _hash(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big", signed=True)


FEW = 5
"""Batches of fewer picks are not compared with the picks that were learned before."""


class Learned(NamedTuple):
    """Hashes of the picks whose rewards an agent has learned, a value of bounded size.

    Attributes:
        picks: the number of picks.
        kept: the hashes of the picks with the least named outcomes, (n, 3); in this order if they
            are all that are kept.
    """

    picks: int = 0
    kept: NDArray[np.int64] = NONE

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Self:
        """Returns the value with a given `state`; raises a `ValueError` if there is none."""
        read = fitted(state, cls().state())
        return cls(read["picks"], read["hashes"].numpy())

    def state(self) -> dict[str, Any]:
        """Returns the value as plain data."""
        return {"picks": self.picks, "hashes": torch.from_numpy(self.kept)}

    def add(self, hashes: Iterable[tuple[int, int, int]] | NDArray[np.int64]) -> Learned:
        """Returns the value with further picks."""
        new = np.array([*hashes], np.int64).reshape(-1, 3)
        picks, every = self.picks + len(new), self.kept
        if len(every) == KEPT:  # most picks change nothing any more
            new = new[new[:, 1] < every[-1, 1]]
        if len(new):
            every = np.concatenate([every, new])
            if len(every) >= KEPT:
                every = every[every[:, 1].argsort(kind="stable")[:KEPT]]
        return Learned(picks, every)

    def recognised(self, hashes: NDArray[np.int64]) -> str:
        """Describes how many picks of a log were learned from, or "" if chance explains them.

        The chance of equal hashes is their frequency among pairs of the log's n picks, (n, 3), and
        among pairs of the picks that are kept; names are taken to be equal.
        """
        n = len(hashes)
        if not n or not len(self.kept):
            return ""
        kept = np.unique(self.kept, axis=0)  # a pick that was learned twice is not a coincidence
        share, of_name = len(self.kept) / self.picks, 0.0
        for logged, known in zip(hashes.T, kept.T, strict=True):
            # equal hashes are kept or left out together: pairs of a sample have more of them
            alike = max(_pairs(logged), share * _pairs(known))
            chance = min(1.0, alike * len(kept) + of_name)
            of_name = alike * share  # the next hash adds the name to the outcome
            count = _beyond(logged, known, chance)
            if count:
                sample = f" (of a sample of {share:.1%})" if share < 1 else ""
                return f"{count:,} of its {n:,} picks with a reward{sample}"
        return ""

    def repeated(self, hashes: Iterable[tuple[int, int, int]]) -> float:
        """Returns the share of picks, (n, 3), that were learned before, or 0 if chance explains it.

        A pick recurs if its outcome and its context do, under any name.
        """
        new = np.array([*hashes], np.int64).reshape(-1, 3)
        if min(len(new), len(self.kept)) < FEW:
            return 0.0
        given, known = (one[:, 0] * 31 + one[:, 2] for one in (new, self.kept))  # modulo 2⁶⁴
        share = len(known) / self.picks
        chance = min(1.0, max(_pairs(given), share * _pairs(known)) * len(known))
        return min(1.0, _beyond(given, known, chance) / (len(new) * share))


def _beyond(given: NDArray[np.int64], known: NDArray[np.int64], chance: float) -> int:
    """The number of n hashes that are known, or 0 if the `chance` of each explains so many."""
    n, count = len(given), int(np.isin(given, known).sum())
    return count if count > n * chance + 4 * math.sqrt(n * chance) + min(n - 1, 4) else 0


def _pairs(hashes: NDArray[np.int64]) -> float:
    """The frequency of equal hashes among pairs of hashes."""
    counts, n = np.unique(hashes, return_counts=True)[1], len(hashes)
    return float((counts * (counts - 1)).sum()) / max(n * (n - 1), 1)


class Schema(NamedTuple):
    """The properties by which an agent and a log are compared.

    Attributes:
        width: the number d of features.
        names: the names of the features in order; None for arrays without names.
        encoder: the encoder that made the features of a table, or None.
        labels: the normal forms of the groups' labels.
        reward: the name of the reward, or None.
        decisions: the decisions that an agent has learned from; None for a log, and for an agent
            whose policy does not read rewards.
    """

    width: int
    names: tuple[str, ...] | None
    encoder: Encoder | None
    labels: tuple[str, ...]
    reward: str | None
    decisions: Learned | None = None

    def check_log(self, log: Schema, hashes: NDArray[np.int64], name: str) -> Iterator[str]:
        """Compares an agent's schema with the schema and the hashes, (n, 3), of a log's picks.

        Yields notes on features that cannot be compared, and on harmless differences; any other
        difference raises a `FairbanditError`. Messages call the agent by `name`.
        """
        if self.names and log.names and self.names != log.names:
            raise FairbanditError(
                f"{name} takes the features {_names(self)}, and the log has {_names(log)}; read "
                "the log with like=… or features=[…] so that it has these, in this order"
            )
        if self.width != log.width:
            raise FairbanditError(
                f"{name} takes {self.width} features, and the log has {log.width}: {_names(log)}"
            )
        if None in (self.names, log.names):
            which = "the log's" if log.names is None else f"{name}'s"
            yield f"{which} features have no names, so that only their number is compared"
        if (self.encoder is None) != (log.encoder is None):
            yield f"{name} and the log: only one of them says how its features are standardised"
        elif self.encoder != log.encoder:
            raise FairbanditError(
                f"{name} takes features standardised by another table than the log: read the log "
                "as read_log(…, like=agent.encoder), or like the log that the agent learned from"
            )
        unknown = [repr(label) for label in log.labels if label not in self.labels]
        if unknown and self.labels:
            raise FairbanditError(
                f"the log has groups that {name} does not know: {listed(unknown)}; it knows "
                f"{listed([*map(repr, self.labels)])}"
            )
        if None not in (self.reward, log.reward) and self.reward != log.reward:
            yield f"{name} has learned from {self.reward!r}, and the log's reward is {log.reward!r}"
        if self.decisions and (known := self.decisions.recognised(hashes)):
            raise FairbanditError(
                f"{name} has learned from this log, which would flatter it: it knows {known}. "
                "Judge it by other decisions, or give its policy, which is trained on a part of "
                "the log"
            )


def _names(schema: Schema) -> str:
    names = schema.names
    return listed([*map(repr, names)]) if names else "x0, x1, … without names"

"""Schemas, which an agent and a log are compared by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from fairbandit.errors import FairbanditError
from fairbandit.notices import listed
from fairbandit.tables.encoder import Encoder

MOST_KNOWN = 0.1
"""The largest share of a log's picks that an agent may have learned from. Different picks may be
equal and have equal names, if features and rewards have few values."""


def unnamed(width: int) -> tuple[str, ...]:
    """Returns placeholders for the names of features: x0, x1, …"""
    return tuple(f"x{column}" for column in range(width))


def described(given: Encoder | Sequence[str] | int) -> tuple[Encoder | None, Any, int]:
    """Returns the encoder, the names and the number of features; None if unknown."""
    if isinstance(given, int):
        return None, None, given
    names = tuple(given.names if isinstance(given, Encoder) else given)
    return given if isinstance(given, Encoder) else None, names, len(names)


class Schema(NamedTuple):
    """The properties by which an agent and a log are compared."""

    width: int  # the number of features
    names: tuple[str, ...] | None  # of the features in order; None for arrays without names
    encoder: Encoder | None  # made the features of a table
    labels: tuple[str, ...]  # the normal forms of the groups' labels
    reward: str | None  # the name of the reward
    learned: Callable[[int], int | None] | None = None  # returns None for the key of an unseen pick

    def check_log(self, log: Schema, keys: Sequence[tuple[int, int]], name: str) -> Iterator[str]:
        """Compares an agent, called `name`, with the schema of a log and the keys of its picks.

        An agent has learned from a pick if it knows its key: with the name of its decision, or
        without a name, if the agent observed the pick or its log has no names. Yields notes on
        what cannot be compared and on harmless differences; others raise a `FairbanditError`.
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
        learned = self.learned or (lambda _: None)
        named = sum(learned(key) is not None for key, bare in keys if key != bare)
        known = max(named, sum(learned(bare) is not None for _, bare in keys))
        picks = f"{known:,} of its {len(keys):,} picks with a reward"
        if named > MOST_KNOWN * len(keys):
            raise FairbanditError(
                f"{name} has learned from this log, which would flatter it: it knows {picks}. "
                "Judge it by other decisions, or give its policy, which is trained on a part of "
                "the log"
            )
        if known:
            yield f"{name} has learned from this log, or from equal picks: it knows {picks}"


def _names(schema: Schema) -> str:
    names = schema.names
    return listed([*map(repr, names)]) if names else "x0, x1, … without names"

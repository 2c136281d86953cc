"""What a part costs a round, beside the reference part of its kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from fairbandit.conformance.metrics import judging_seconds
from fairbandit.conformance.world import (
    REFERENCES,
    REPLICAS,
    Spec,
    engine_with,
    environment_of,
)
from fairbandit.streams import Streams

ROUNDS = 512
"""How many rounds are timed."""

TRIES = 3
"""The fastest of so many counts."""


@dataclass(frozen=True)
class Cost:
    """Milliseconds a round, of all replicas together.

    Attributes:
        own: with the part; of an environment, drawing its pools; of a metric, judging.
        reference: with the reference part of its kind in its place.
    """

    own: float
    reference: float


def cost(kind: str, spec: Spec) -> Cost:
    """Times rounds of the suite's problem with a part and, in turn, with its kind's reference."""
    own, reference = _timed(kind, spec), _timed(kind, REFERENCES[kind])
    pairs = [(own(), reference()) for _ in range(TRIES)]
    return Cost(*(1000 * min(seconds) / ROUNDS for seconds in zip(*pairs, strict=True)))


def _timed(kind: str, spec: Spec) -> Callable[[], float]:
    """The seconds that it takes to play, draw or judge all rounds once."""

    def seconds() -> float:
        if kind == "environment":
            world = environment_of(spec)
            world.bind(Streams(0, range(REPLICAS)))
            start = perf_counter()
            world.pools(1, ROUNDS)
            return perf_counter() - start
        if kind == "metric":
            return judging_seconds(spec, ROUNDS)
        engine = engine_with(kind, spec, rounds=ROUNDS)
        start = perf_counter()
        for _ in engine.play():
            pass
        return perf_counter() - start

    return seconds

"""Checks that a part changes nothing that is not its own, from its constructor to its last call.

Not its own are the tensors of the candidates, the past, the problem, its truth, the random draws
and a state that it loads, those that it has returned, settings, and global random generators.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from fairbandit import registry
from fairbandit.conformance.metrics import PIECES, bound, judge, random_rounds
from fairbandit.conformance.watch import Memory, Unchanged, Watch, held_streams, watched
from fairbandit.conformance.world import (
    LATE,
    REPLICAS,
    Spec,
    bind,
    class_of,
    engine_with,
    grow,
    scores_with,
)
from fairbandit.engine import Engine
from fairbandit.parts import Estimator
from fairbandit.streams import AHEAD

HALF, LIFE = 8, 16
"""The rounds after which another part takes over the state, and for which a part is watched."""


def leaves_tensors(kind: str, spec: Spec) -> None:
    """Changes no tensor that it was given or returned before; returns none that requires grad."""
    _live(kind, spec, Memory())


def leaves_globals(kind: str, spec: Spec) -> None:
    """Changes no setting of torch or NumPy; neither uses nor seeds a global random generator."""
    with restored():
        torch.set_num_threads(3)  # none that a part would choose, and so the seeds
        torch.default_generator.manual_seed(0x5EED)
        np.random.seed(0x5EED)  # noqa: NPY002
        random.seed(0x5EED)
        fault = "`{}` changes {}; expected draws from the problem's streams, and settings as found"
        _live(kind, spec, Unchanged(_globals, fault))


@contextmanager
def restored() -> Iterator[None]:
    """Restores, on exit, the settings and global generators that were changed inside."""
    before = _globals()
    try:
        yield
    finally:
        now = _globals()
        for name, (_, put) in _GLOBALS.items():
            if now[name] != before[name]:
                put(before[name])


def _live(kind: str, spec: Spec, watch: Watch) -> None:
    """Has a part go through all calls that parts of its kind get, under watch."""
    {"environment": _draw, "metric": _judge}.get(kind, _decide)(kind, spec, watch)


def _draw(kind: str, spec: Spec, watch: Watch) -> None:
    world = _made(kind, spec, watch)
    world.bind(held_streams(0, [0, 1], watch.hold))
    for first, count in ((1, AHEAD), (AHEAD + 1, 3), (AHEAD + 4, 1), (1, 2)):
        world.pools(first, count)


def _judge(kind: str, spec: Spec, watch: Watch) -> None:
    first, second = (bound(_made(kind, spec, watch)) for _ in range(2))
    rounds = random_rounds(held_streams(1, range(REPLICAS), watch.hold))
    judge(first, rounds, PIECES[:2])
    second.load_state(first.state())
    for metric in (first, second):
        judge(metric, rounds, PIECES[2:], sum(PIECES[:2]) + 1)


def _decide(kind: str, spec: Spec, watch: Watch) -> None:
    """Has a part of a policy decide rounds, hand over its state, and grow, under watch."""
    cls = class_of(kind, spec)
    grows = cls.grow is not registry.base_of(kind).grow
    for split in ("halves",) if kind == "split" else ("halves", "full"):
        first, second = (_engine(kind, spec, watch, split=split) for _ in range(2))
        engines, problem = [first], first.policy.problem
        if grows:
            for engine in (first, second):
                bind(engine, replace(problem, groups=problem.groups - 1))
        _play(first, HALF)
        if _hand_over(first, second):
            engines.append(second)
        for engine in engines:
            if grows:
                grow(engine, problem)
            _play(engine, LIFE)
    if kind == "estimator" and cls.absorb is not Estimator.absorb:
        scores_with(_engine(kind, spec, watch, split="full"), LATE)


def _made(kind: str, spec: Spec, watch: Watch) -> Any:
    """A part that is watched from its constructor on."""
    note = watch.before(None, {})
    part = registry.create(kind, spec)
    watch.after("__init__", None, note)
    watched(kind, part, watch)
    return part


def _engine(kind: str, spec: Spec, watch: Watch, split: str) -> Engine:
    """An engine whose part is watched."""
    part = _made(kind, spec, watch)
    engine = engine_with(kind, spec, part=part, split=split, rare_after=HALF)
    streams = held_streams(1, engine.streams.replicas, watch.hold)
    bind(engine, replace(engine.policy.problem, streams=streams))
    return engine


def _play(engine: Engine, rounds: int) -> None:
    engine.rounds = rounds
    for _ in engine.play():
        pass


def _hand_over(giver: Engine, taker: Engine) -> bool:
    """Loads one engine's state into another; False if its keys differ, which `resumes` reports."""
    both = zip(giver.policy.parts.values(), taker.policy.parts.values(), strict=True)
    states = [(part.state(), other) for part, other in both]
    if any(state.keys() != other.state().keys() for state, other in states):
        return False
    for state, other in states:
        other.load_state(state)
    taker.history.load_state(giver.history.state())
    return True


def _globals() -> dict[str, Any]:
    """The settings and the states of the global generators, in a form that can be compared."""
    return {name: read() for name, (read, _) in _GLOBALS.items()}


def _numpys() -> tuple[Any, ...]:
    state: Any = np.random.get_state()  # noqa: NPY002
    return state[0], state[1].tolist(), *state[2:]


_GLOBALS: Mapping[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "torch's default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "torch's number of threads": (torch.get_num_threads, torch.set_num_threads),
    "whether torch records gradients": (torch.is_grad_enabled, torch.set_grad_enabled),
    "NumPy's handling of floating-point errors": (np.geterr, lambda kept: np.seterr(**kept)),
    "torch's global generator": (
        lambda: torch.get_rng_state().tolist(),
        lambda state: torch.set_rng_state(torch.tensor(state, dtype=torch.uint8)),
    ),
    "NumPy's global generator": (_numpys, np.random.set_state),
    "Python's global generator": (random.getstate, random.setstate),
}
"""What parts must not touch: its name, with the functions that read and set it."""

"""Checks that a part changes nothing that is not its own, from its constructor to its last call.

A part must not change the tensors of the candidates, the past, the problem, its truth, the random
draws and a state that it loads, nor those that it has returned. It must not change the settings of
torch and NumPy, nor use their global random generators.
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

SEED = 0x5EED_0FBA
"""The seed of the global generators, one that no part would choose."""

HALF = 8
"""After this many rounds another part takes over the state, and a rare group appears."""

LIFE = 2 * HALF
"""The number of rounds for which a part is watched."""

THREADS = 3
"""Torch's number of threads before the check; a part that sets it to 1 is then noticed."""


def leaves_tensors(kind: str, spec: Spec) -> None:
    """Changes no tensor that it was given or returned before; returns none that requires grad."""
    _live(kind, spec, Memory())


def leaves_settings(kind: str, spec: Spec) -> None:
    """Changes no setting of torch or NumPy, such as the default dtype."""
    with restored():
        torch.set_num_threads(THREADS)
        _live(kind, spec, Unchanged(_settings, "`{}` changes {}; settings are the user's"))


def leaves_global_generators(kind: str, spec: Spec) -> None:
    """Draws from the problem's streams only; neither uses nor seeds a global generator."""
    fault = "in `{}` it draws from {} global generator, or seeds it"
    numpys, pythons = np.random.get_state(), random.getstate()  # noqa: NPY002
    with torch.random.fork_rng(devices=[]):
        try:
            torch.default_generator.manual_seed(SEED)
            np.random.seed(SEED)  # noqa: NPY002
            random.seed(SEED)
            _live(kind, spec, Unchanged(_generators, fault))
        finally:
            np.random.set_state(numpys)  # noqa: NPY002
            random.setstate(pythons)


@contextmanager
def restored() -> Iterator[None]:
    """Restores, on exit, the settings that were changed inside."""
    before = _settings()
    try:
        yield
    finally:
        now = _settings()
        for name, (_, put) in _SETTINGS.items():
            if now[name] != before[name]:
                put(before[name])


def _live(kind: str, spec: Spec, watch: Watch) -> None:
    """Has a part go through all calls that parts of its kind get, under watch."""
    {"environment": _draw, "metric": _judge}.get(kind, _decide)(kind, spec, watch)


def _draw(kind: str, spec: Spec, watch: Watch) -> None:
    """Has an environment draw pools of many and of few rounds, under watch."""
    world = _made(kind, spec, watch)
    world.bind(held_streams(0, [0, 1], watch.hold))
    for first, count in ((1, AHEAD), (AHEAD + 1, 3), (AHEAD + 4, 1), (1, 2)):
        world.pools(first, count)


def _judge(kind: str, spec: Spec, watch: Watch) -> None:
    """Has a metric judge rounds and hand over its state, under watch."""
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
    """Plays until `rounds` rounds are played in all."""
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


def _generators() -> dict[str, Any]:
    """The states of the global generators, in a form that can be compared."""
    _, keys, *others = np.random.get_state()  # noqa: NPY002
    return {
        "torch's": torch.get_rng_state().numpy().tobytes(),
        "NumPy's": (np.asarray(keys).tobytes(), others),
        "Python's": random.getstate(),
    }


def _settings() -> dict[str, Any]:
    return {name: read() for name, (read, _) in _SETTINGS.items()}


def _deterministic() -> tuple[bool, bool]:
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )


def _set_device(device: torch.device) -> None:
    """Makes a device torch's default; the CPU is it again by None, and costs no call anything."""
    torch.set_default_device(None if device.type == "cpu" else device)


_SETTINGS: Mapping[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "torch's default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "torch's default device": (torch.get_default_device, _set_device),
    "torch's number of threads": (torch.get_num_threads, torch.set_num_threads),
    "whether torch records gradients": (torch.is_grad_enabled, torch.set_grad_enabled),
    "torch's deterministic algorithms": (
        _deterministic,
        lambda both: torch.use_deterministic_algorithms(both[0], warn_only=both[1]),
    ),
    "torch's precision of float32 products": (
        torch.get_float32_matmul_precision,
        torch.set_float32_matmul_precision,
    ),
    "NumPy's handling of floating-point errors": (np.geterr, lambda kept: np.seterr(**kept)),
}
"""The name of each setting, with the functions that read and set it."""

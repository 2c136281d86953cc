"""Checks that a part leaves alone what is not its own, from its constructor to its last call.

Not its own are the tensors of the candidates, of the past, of the problem and its truth, of the
random draws and of a state that it loads, and those that it has returned.
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
from fairbandit.conformance.metrics import live
from fairbandit.conformance.watch import HeldStreams, Memory, Unchanged, Watch, watched
from fairbandit.conformance.world import (
    LATE,
    Spec,
    bind,
    engine_with,
    environment_of,
    grow,
    name_of,
    scores_with,
)
from fairbandit.engine import Engine
from fairbandit.parts import Estimator
from fairbandit.streams import AHEAD

SEED = 0x5EED_0FBA_4D17
"""The global generators start from here, where no part's own seed would put them."""

HALF = 8
"""After so many rounds another part takes over the state, and a rare group appears."""

LIFE = 2 * HALF
"""How many rounds a part is watched: each call is compared with all that came before it."""

THREADS = 3
"""How many threads torch starts with, so that a part that sets one is noticed."""


def leaves_tensors(kind: str, spec: Spec) -> None:
    """Changes no tensor that it was given or returned before; returns none that requires grad."""
    _live(kind, spec, Memory())


def leaves_settings(kind: str, spec: Spec) -> None:
    """Changes no setting of torch or NumPy, such as the default dtype."""

    def fault(method: str, changed: list[str]) -> str:
        return f"`{method}` changes {' and '.join(changed)}; settings are the user's"

    with restored():
        torch.set_num_threads(THREADS)
        _live(kind, spec, Unchanged(_settings, fault))


def leaves_global_generators(kind: str, spec: Spec) -> None:
    """Draws from the problem's streams only; neither uses nor seeds a global generator."""

    def fault(method: str, touched: list[str]) -> str:
        return f"in `{method}` it draws from {' and '.join(touched)} global generator, or seeds it"

    with _unusual_generators():
        _live(kind, spec, Unchanged(_generators, fault))


@contextmanager
def restored() -> Iterator[None]:
    """Puts the settings back that are changed inside."""
    before = _settings()
    try:
        yield
    finally:
        now = _settings()
        for name, (_, put) in _SETTINGS.items():
            if now[name] != before[name]:
                put(before[name])


@contextmanager
def _unusual_generators() -> Iterator[None]:
    """The global generators in a state where no part's own seed would put them."""
    kept = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        torch.set_rng_state(torch.Generator().manual_seed(SEED).get_state())
        np.random.seed(SEED % 2**32)  # noqa: NPY002
        random.seed(SEED)
        yield
    finally:
        torch.set_rng_state(kept[0])
        np.random.set_state(kept[1])  # noqa: NPY002
        random.setstate(kept[2])


def _live(kind: str, spec: Spec, watch: Watch) -> None:
    """Lets a part do all that parts of its kind do, under watch."""
    if kind == "environment":
        _draw(spec, watch)
        return
    if kind == "metric":
        live(spec, watch)
        return
    cls, base = registry.lookup(kind, name_of(spec)), registry.base_of(kind)
    grows = cls.grow is not base.grow
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


def _engine(kind: str, spec: Spec, watch: Watch, split: str) -> Engine:
    """An engine whose part is watched from its constructor on."""
    note = watch.before(None, {})

    def prepare(part: Any) -> None:
        watch.after("__init__", None, note)
        watched(kind, part, watch)

    engine = engine_with(kind, spec, prepare=prepare, split=split, rare_after=HALF)
    streams = HeldStreams(1, engine.streams.replicas, watch.hold)
    bind(engine, replace(engine.policy.problem, streams=streams))
    return engine


def _play(engine: Engine, rounds: int) -> None:
    """Goes on until so many rounds are played."""
    engine.rounds = rounds
    for _ in engine.play():
        pass


def _hand_over(giver: Engine, taker: Engine) -> bool:
    """Lets one engine take over another's state; whether that can be loaded, see `resumes`."""
    both = zip(giver.policy.parts.values(), taker.policy.parts.values(), strict=True)
    states = [(part.state(), other) for part, other in both]
    if any(state.keys() != other.state().keys() for state, other in states):
        return False
    for state, other in states:
        other.load_state(state)
    taker.history.load_state(giver.history.state())
    return True


def _draw(spec: Spec, watch: Watch) -> None:
    """Lets an environment draw pools, many and few at a time, under watch."""
    note = watch.before(None, {})
    world = environment_of(spec)
    watch.after("__init__", None, note)
    watched("environment", world, watch)
    world.bind(HeldStreams(0, [0, 1], watch.hold))
    for first, count in ((1, AHEAD), (AHEAD + 1, 3), (AHEAD + 4, 1), (1, 2)):
        world.pools(first, count)


def _generators() -> dict[str, Any]:
    """The states of the global generators, comparable."""
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


_SETTINGS: Mapping[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "torch's default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "torch's default device": (torch.get_default_device, torch.set_default_device),
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
"""Each setting's name, and how to read and to set it."""

"""The check that a part changes nothing that is not its own, from its constructor to its last call.

Not its own are the tensors of the candidates, the past, the problem, its truth, the random draws
and a state that it loads, those that it has returned, settings, and global random generators.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbandit import registry
from fairbandit.conformance.playing import LATE, scores_with
from fairbandit.conformance.world import ConformanceError, Spec, class_of, engine_with, grow, run
from fairbandit.environments.base import Pools, Truth
from fairbandit.maths.grouped_cdf import GroupedCdf
from fairbandit.metrics import Judged
from fairbandit.parts import (
    Candidates,
    Estimator,
    History,
    Outcomes,
    Past,
    Problem,
    RewardModel,
)
from fairbandit.streams import Stream, Streams

HALF, LIFE = 8, 16
"""The rounds after which another part takes over the state, and for which a part is watched."""


def leaves_all_as_found(kind: str, spec: Spec) -> None:
    """Changes no tensor that it was given or has returned, no setting, and no global generator."""
    with restored():
        torch.set_num_threads(3)  # none that a part would choose, and so the seeds
        torch.default_generator.manual_seed(0x5EED)
        np.random.seed(0x5EED)  # noqa: NPY002
        random.seed(0x5EED)
        for split in ("halves", "full"):
            _live(kind, spec, Watch(), split)


def _live(kind: str, spec: Spec, watch: Watch, split: str) -> None:
    """Has a part decide rounds, hand over its state, and grow, under watch."""
    fewer: dict[str, Any] = {"groups": 2, "rare_after": HALF} if kind != "environment" else {}
    first, second, late = (
        engine_with(kind, spec, part=watch.made(kind, spec), split=split, **fewer) for _ in range(3)
    )
    run(first, HALF)
    second.load_state(first.state())
    for engine in (first, second):
        grow(engine)
        run(engine, LIFE)
    if kind == "estimator" and class_of(kind, spec).absorb is not Estimator.absorb:
        grow(late)
        scores_with(late, LATE)


class Watch:
    """Compares, around each call of a part's methods, what is not the part's own.

    Shape, content and `requires_grad` of tensors are compared, which detects writes through views,
    NumPy and `.data`, with and without inference mode. Tensors that were given or returned are
    compared after every later call too, but for those of past outcomes, whose memory is written to
    between calls.
    """

    def __init__(self) -> None:
        self._held: dict[int, tuple[str, Tensor, Any]] = {}  # keeps the tensors alive

    def made(self, kind: str, spec: Spec) -> Any:
        """A part; its constructor and those methods of the contract that it writes are watched."""
        contract = registry.base_of(kind)
        part = self._call("__init__", None, {}, partial(registry.create, kind, spec))
        for name, method in inspect.getmembers(part, inspect.ismethod):
            inherited = getattr(contract, name, method)
            if inspect.isfunction(inherited) and method.__func__ is not inherited:
                setattr(part, name, partial(self._watched, name, part, method))
        return part

    def _watched(
        self, name: str, part: Any, method: Callable[..., Any], *args: Any, **options: Any
    ) -> Any:
        given = inspect.signature(method).bind(*args, **options).arguments
        return self._call(name, part, given, partial(method, *args, **options))

    def _call(self, name: str, part: Any, given: Mapping[str, Any], work: Callable[[], Any]) -> Any:
        shared = {key: getattr(part, key, None) for key in ("problem", "truth", "streams")}
        now: dict[int, tuple[str, Tensor, Any]] = {}
        settings = _globals()
        for argument, value in {**given, **shared}.items():
            for path, tensor, lasts in _tensors(argument, value):
                what = f"`{path}`, which it was given"
                now.setdefault(id(tensor), (what, tensor, _content(tensor)))
                if lasts:
                    self._hold(f"{what} earlier", tensor)
        result = work()
        changed = [key for key, value in _globals().items() if value != settings[key]]
        if changed:
            raise ConformanceError(
                f"`{name}` changes {' and '.join(changed)}; expected draws from the problem's "
                "streams, and settings as found"
            )
        for what, tensor, content in (*now.values(), *self._held.values()):
            if _content(tensor) != content:
                raise ConformanceError(
                    f"`{name}` changes {what}; no such tensor may change: work on a `.clone()`"
                )
        for _, tensor, lasts in _tensors("", result):
            if tensor.requires_grad:
                raise ConformanceError(
                    f"`{name}` returns a tensor that requires grad; expected one without, such as "
                    "`.detach()` gives"
                )
            if lasts:
                self._hold(f"what `{name}` returned earlier", tensor)
        return result

    def _hold(self, what: str, tensor: Tensor) -> None:
        self._held.setdefault(id(tensor), (what, tensor, _content(tensor)))


def _content(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.requires_grad, tensor.shape, tensor.detach().cpu().numpy().tobytes()


def _tensors(path: str, value: Any, lasts: bool = True) -> Iterator[tuple[str, Tensor, bool]]:
    """The tensors that a value holds: the expression for each, and whether it stays as it is."""
    if isinstance(value, Tensor):
        yield path, value, lasts
    if isinstance(value, Candidates):  # computed once, and shared by all callers
        _ = value.scores, value.upper_scores, value.tie_tolerance, value.present
        for past in (value.past, value.past.every) if "contexts" in value.history.needs else ():
            _ = past.count, past.mean, past.variance
    lasts = lasts and not isinstance(value, (History, Outcomes))
    for name, item in _inside(value).items():
        yield from _tensors(f"{path}{name}", item, lasts)


def _inside(value: Any) -> dict[str, Any]:
    """The values inside a value, each with the expression for it."""
    if isinstance(value, Mapping):
        return {f"[{key!r}]": item for key, item in value.items()}
    if isinstance(value, History):
        return {f".{name}": rows[rows.kept] for name, rows in value._rows.items()}
    if isinstance(value, Streams):
        return {f"[{purpose.name}]": stream for purpose, stream in value._streams.items()}
    if isinstance(value, Stream):
        return {".uniform(…)": list(value._kept.values())}
    if hasattr(value, "_fields"):
        return {f".{name}": item for name, item in value._asdict().items()}
    if isinstance(value, (list, tuple)):
        return {f"[{place}]": item for place, item in enumerate(value)}
    if isinstance(value, _HOLDERS):
        return {f".{name}": item for name, item in vars(value).items() if name[0] != "_"}
    return {}


_HOLDERS = (Candidates, Past, Problem, Truth, RewardModel, GroupedCdf, Pools, Judged)
"""The classes whose attributes may hold tensors that several parts share."""


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

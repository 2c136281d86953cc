"""The check that a part leaves arguments, itself, settings and global generators unchanged."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from functools import partial, wraps
from io import StringIO
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbandit import registry
from fairbandit.conformance.world import SETTINGS, ConformanceError, Spec, made, play
from fairbandit.errors import FairbanditError
from fairbandit.streams import Purpose, Streams

_GLOBALS: Mapping[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "torch's default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "torch's number of threads": (torch.get_num_threads, torch.set_num_threads),
    "whether torch records gradients": (torch.is_grad_enabled, torch.set_grad_enabled),
    "NumPy's handling of floating-point errors": (np.geterr, lambda kept: np.seterr(**kept)),
    "torch's global generator": (torch.get_rng_state, torch.set_rng_state),
    "NumPy's global generator": (np.random.get_state, np.random.set_state),
    "Python's global generator": (random.getstate, random.setstate),
}

_COMPUTED = ("rounds", "rank_window", "outcomes", "past", "count", "moments")


def changes_nothing_but_what_it_returns(kind: str, spec: Spec) -> None:
    """Given tensors, the part itself, settings and generators stay, and nothing is printed."""
    with restored(), _silent("playing"):
        torch.set_num_threads(3)  # a number that a part would not choose
        tested = _watched("__init__", partial(made, kind, spec))()
        parts = tested.parts.values() if kind == "policy" else [tested]
        before = [repr(vars(part)) for part in parts]
        for part in parts:
            cls, contract = type(part), registry.base_of(part._kind)
            methods = {
                name: _watched(name, method)
                for name, method in inspect.getmembers(cls, inspect.isfunction)
                if method is not getattr(contract, name, method)
            }
            part.__class__ = type(cls.__name__, (cls,), methods)
        for setting in SETTINGS:
            play(kind, tested, setting, rounds=16)
        for part, old in zip(parts, before, strict=True):
            if part._kind != "environment" and repr(vars(part)) != old:
                raise ConformanceError(
                    f"playing changes the part's attributes from {old} to {vars(part)}; expected "
                    "only the constructor's arguments, unchanged"
                )


def _watched(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(*given: Any, **options: Any) -> Any:
        arguments = inspect.signature(method).bind(*given, **options).arguments
        arguments.pop("self", None)
        before = _contents(arguments)
        with _silent(f"`{name}`"):
            result = method(*given, **options)
        for label, content in _contents(arguments).items():
            if content != before.get(label, content):
                raise ConformanceError(
                    f"`{name}` changes {label}; expected unchanged values and settings: work on a "
                    "`.clone()`, and draw from the problem's streams"
                )
        return result

    return call


def _contents(arguments: Mapping[str, Any]) -> dict[str, Any]:
    contents = {name: _content(read()) for name, (read, _) in _GLOBALS.items()}
    for key, value in arguments.items():
        for path, tensor in _tensors(key, value):
            contents[f"`{path}`, which it was given"] = _content(tensor)
    return contents


def _tensors(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    inside: dict[str, Any] = {}
    if isinstance(value, (Tensor, np.ndarray)):
        yield path, value
    elif isinstance(value, Streams):
        kept = {p: value[p]._kept for p in Purpose}  # other rounds have another label
        inside = {f"[{p.name}].uniform{key}": drawn for p, (key, drawn) in kept.items()}
    elif hasattr(value, "_fields"):
        inside = {f".{name}": item for name, item in value._asdict().items()}
    elif isinstance(value, (list, tuple)):
        inside = {f"[{n}]": item for n, item in enumerate(value)}
    elif any(cls.__module__.startswith("fairbandit.") for cls in type(value).__mro__):
        for name in (*(name for name in vars(value) if name[0] != "_"), *_COMPUTED):
            with suppress(FairbanditError):  # past contexts that no part needs
                inside[f".{name}"] = getattr(value, name, None)
    for name, item in inside.items():
        yield from _tensors(f"{path}{name}", item)


def _content(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.shape, value.tobytes()
    if not isinstance(value, Tensor):
        return repr(value)
    values = value.detach().cpu().numpy().tobytes()
    version = None if value.is_inference() else value._version
    return version, value.requires_grad, value.shape, values


@contextmanager
def _silent(what: str) -> Iterator[None]:
    with redirect_stdout(StringIO()) as out:
        yield
    if text := out.getvalue():
        raise ConformanceError(f"{what} prints {text[:40]!r}; expected no output")


@contextmanager
def restored() -> Iterator[None]:
    """Restores, on exit, the settings and global generators that were changed inside."""
    before = {name: read() for name, (read, _) in _GLOBALS.items()}
    try:
        yield
    finally:
        for name, (_, put) in _GLOBALS.items():
            put(before[name])

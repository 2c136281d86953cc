"""Detects that a call of a part's method changes something that is not the part's own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

from fairbandit import registry
from fairbandit.conformance.world import ConformanceError, streams_of
from fairbandit.maths.grouped_cdf import GroupedCdf
from fairbandit.parts import Candidates, History, Outcomes, Part, Past, Problem, RewardModel
from fairbandit.streams import Stream, Streams


def watched(kind: str, part: Any, watch: Watch) -> None:
    """Has a watch called around every later call of the contract's methods that a part writes."""
    cls, contract = type(part), registry.base_of(kind)
    own = cls.__mro__[: cls.__mro__.index(contract)]
    names = {name for above in own for name in vars(above) if not name.startswith("__")}
    body: dict[str, Any] = {
        name: _looked_at(name, getattr(cls, name), watch)
        for name in names
        if inspect.isfunction(getattr(contract, name, None))
    }
    if isinstance(part, Part):
        body["autograd"] = cls.autograd  # not inherited
    metaclass: Any = type(cls)
    part.__class__ = metaclass(cls.__name__, (cls,), {"__module__": cls.__module__, **body})


def _looked_at(name: str, method: Callable[..., Any], watch: Watch) -> Callable[..., Any]:
    signature = inspect.signature(method)

    def call(self: Any, *args: Any, **options: Any) -> Any:
        given = signature.bind(self, *args, **options).arguments
        note = watch.before(self, {key: value for key, value in given.items() if value is not self})
        result = method(self, *args, **options)
        watch.after(name, result, note)
        return result

    return call


class Unchanged:
    """Fails a call that changes values which can be read at any time, such as settings.

    Args:
        read: returns the values by name.
        fault: the error message, with places for the method and the names of the changed values.
    """

    def __init__(self, read: Callable[[], Mapping[str, Any]], fault: str) -> None:
        self._read, self._fault = read, fault

    def hold(self, tensor: Tensor, name: str) -> None:
        """Compares no tensors."""

    def before(self, part: Any, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Reads the values."""
        return self._read()

    def after(self, method: str, result: Any, note: Any) -> None:
        """Refuses values that the call changed."""
        now = self._read()
        changed = [name for name, value in note.items() if now[name] != value]
        if changed:
            raise ConformanceError(self._fault.format(method, " and ".join(changed)))


class Memory:
    """Fails a call that changes a tensor which the part was given or has returned.

    Shape, content and `requires_grad` are compared, which detects writes through views, NumPy and
    `.data`, with and without inference mode.
    """

    def __init__(self) -> None:
        self._held: dict[int, tuple[Tensor, Any, str]] = {}  # keeps the tensors alive

    def before(self, part: Any, given: Mapping[str, Any]) -> tuple[dict[int, str], list[Any]]:
        """Records every tensor that the part has access to; `given` are the arguments by name.

        Returns:
            What the call calls these tensors; and the histories and outcomes among the arguments,
            with what they hold. Their memory is written to between calls, so that they are compared
            over this call only.
        """
        names: dict[int, str] = {}
        pasts = []
        held = {name: getattr(part, name, None) for name in ("problem", "truth")} | dict(given)
        for name, value in held.items():
            for path, tensor in _tensors(name, value):
                names.setdefault(id(tensor), f"`{path}`, which it was given")
                self.hold(tensor, f"`{path}`, which it was given earlier")
            path, past = name, value
            if isinstance(value, Candidates):
                path, past = f"{name}.history", value.history
            if isinstance(past, (History, Outcomes)):
                pasts.append((path, past, _kept(past)))
        return names, pasts

    def after(self, method: str, result: Any, note: Any) -> None:
        """Refuses a call that changed a tensor, or returns one that requires grad."""
        names, pasts = note
        changed = [
            names.get(key, name)
            for key, (tensor, content, name) in self._held.items()
            if _content(tensor) != content
        ]
        for path, past, before in pasts:
            now = _kept(past)
            changed += [
                f"`{path}.{key}`, which it was given" for key in now if now[key] != before[key]
            ]
        if changed:
            raise ConformanceError(
                f"`{method}` changes {changed[0]}; no such tensor may change: work on a `.clone()`"
            )
        for path, tensor in _tensors("", result):
            if tensor.requires_grad:
                raise ConformanceError(
                    f"`{method}` returns a tensor that requires grad; expected one without, such "
                    "as `.detach()` gives"
                )
            self.hold(tensor, f"what `{method}` returned earlier{f' (`{path}`)' if path else ''}")

    def hold(self, tensor: Tensor, name: str) -> None:
        """Compares the tensor after every later call."""
        _, content, _ = self._held.get(id(tensor)) or (None, _content(tensor), None)
        self._held[id(tensor)] = tensor, content, name


Watch = Unchanged | Memory
"""What is called before and after each call of a part's method."""


def held_streams(
    seed: int, replicas: Sequence[int], hold: Callable[[Tensor, str], None]
) -> Streams:
    """Streams that call `hold` with each tensor of draws that callers share, and its name."""

    class Held(Stream):
        def _ahead(self, index: int, width: int, shift: int) -> Tensor:
            rows = super()._ahead(index, width, shift)
            hold(rows, "the draws of a stream, which it was given")
            return rows

    return streams_of(Held, seed, replicas)


def _content(value: Any) -> Any:
    """What a value with tensors holds, in a form that can be compared."""
    if isinstance(value, Tensor):
        return value.requires_grad, value.shape, value.detach().cpu().numpy().tobytes()
    return [(key, _content(item)) for key, item in _inside(value)] or value


def _kept(past: History | Outcomes) -> dict[str, Any]:
    """What a history or some outcomes hold, in a form that can be compared."""
    state = past._asdict() if isinstance(past, Outcomes) else past.state()
    return {name: _content(value) for name, value in state.items()}


def _tensors(path: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    """The tensors inside an argument or a result, each with the expression for it."""
    if isinstance(value, Outcomes):
        return
    if isinstance(value, Tensor) and value.layout is torch.strided:
        yield path, value
    for key, item in _inside(value):
        yield from _tensors(f"{path}{key}" if path else key.lstrip("."), item)


def _inside(value: Any) -> list[tuple[str, Any]]:
    """The values inside a value, each with the path to it."""
    if isinstance(value, Mapping):
        return [(f"[{key!r}]", item) for key, item in value.items()]
    if isinstance(value, Past):  # computed once, and shared by all callers
        pasts = {"": value, ".every": value.every}
        names: Iterable[str] = ("count", "mean", "variance")
        return [(f"{at}.{name}", getattr(p, name)) for at, p in pasts.items() for name in names]
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return [(f"[{place}]", item) for place, item in enumerate(value)]
    return [(f".{name}", getattr(value, name)) for name in _attributes(value)]


def _attributes(value: Any) -> Iterable[str]:
    """The names of the attributes of a value that may hold tensors."""
    if isinstance(value, Candidates):
        shown = [name for name in ("index", "upper_index") if hasattr(value, name)]
        past = ["past"] if "contexts" in value.history.needs else []
        scored = ["scores", "upper_scores", "tie_tolerance", "present", *shown, *past]
        given = ["contexts", "groups", "division", "rounds", "model", "of_round", "own_model"]
        return given + scored
    if isinstance(value, Problem):
        return ["truth"]
    if is_dataclass(value) and not isinstance(value, type):
        return [part.name for part in fields(value)]
    if isinstance(value, (RewardModel, GroupedCdf)):
        return vars(value)
    return getattr(value, "_fields", ())

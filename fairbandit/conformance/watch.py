"""Detects that a call of a part's method changes something that is not the part's own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from fairbandit import registry
from fairbandit.conformance.world import ConformanceError
from fairbandit.environments.base import Truth
from fairbandit.parts import Candidates, History, Outcomes, Part, Past, Problem, RewardModel
from fairbandit.streams import Purpose, Stream, Streams

Named = tuple[str, Tensor]
"""A tensor, with the expression by which the part reaches it."""


class Watch(Protocol):
    """Is called before and after each call of a part's method."""

    def hold(self, tensor: Tensor, name: str) -> None:
        """Records a tensor that the part is given other than as an argument."""

    def before(self, part: Any, given: Mapping[str, Any]) -> Any:
        """Returns a note of the present state; `given` are the call's arguments by name."""

    def after(self, method: str, result: Any, note: Any) -> None:
        """Compares the state with the note that `before` returned.

        Raises:
            ConformanceError: the call changed something that it must leave alone.
        """


def watched(kind: str, part: Any, watch: Watch) -> None:
    """Has a watch called around every later call of the part's own methods.

    The part's own methods are those of its kind's base class that the part's class implements or
    overrides.
    """
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
        fault: makes the error message from a method's name and the names of the changed values.
    """

    def __init__(
        self, read: Callable[[], Mapping[str, Any]], fault: Callable[[str, list[str]], str]
    ) -> None:
        self._read, self._fault = read, fault

    def hold(self, tensor: Tensor, name: str) -> None:
        """Does nothing, since this watch compares no tensors."""

    def before(self, part: Any, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Reads the values; see `Watch`."""
        return self._read()

    def after(self, method: str, result: Any, note: Mapping[str, Any]) -> None:
        """Compares the values; see `Watch`."""
        now = self._read()
        changed = [name for name, value in note.items() if now[name] != value]
        if changed:
            raise ConformanceError(self._fault(method, changed))


@dataclass
class Seen:
    """A storage that `Memory` compares after every call.

    Attributes:
        storage: the storage.
        content: the bytes that it held when it was first seen.
        name: the argument by which it was last given, or the method that returned it.
    """

    storage: torch.UntypedStorage
    content: bytes
    name: str = ""


@dataclass
class Note:
    """What `Memory` records before a call.

    Attributes:
        names: what the call's own arguments are, by the address of their memory.
        pasts: how the call reaches a history or outcomes, and what these hold.
    """

    names: dict[int, str] = field(default_factory=dict)
    pasts: list[tuple[str, History | Outcomes, dict[str, Any]]] = field(default_factory=list)


class Memory:
    """Fails a call that changes a tensor which the part was given or has returned.

    Whole storages are compared byte by byte. This detects writes through views, NumPy and `.data`,
    with and without inference mode. Each tensor's shape, storage and `requires_grad` are compared
    too.
    """

    def __init__(self) -> None:
        self._seen: dict[int, Seen] = {}
        self._forms: dict[int, tuple[Tensor, tuple[Any, ...]]] = {}  # keeps the tensors alive

    def before(self, part: Any, given: Mapping[str, Any]) -> Note:
        """Records everything that the part can reach; see `Watch`."""
        note = Note()
        problem, truth = getattr(part, "problem", None), getattr(part, "truth", None)
        reach = {"problem": problem, "truth": truth, **given}
        for name, value in reach.items():
            for path, tensor in _tensors(name, value):
                note.names.setdefault(_address(tensor), f"`{path}`, which it was given")
                self.hold(tensor, f"`{path}`, which it was given earlier")
            note.pasts += [(path, past, _held(past)) for path, past in _pasts(name, value)]
        return note

    def after(self, method: str, result: Any, note: Note) -> None:
        """Compares everything with the record; see `Watch`."""
        for seen in self._seen.values():
            if _bytes(seen.storage) != seen.content:
                self._changed(method, seen, note)
        for tensor, form in self._forms.values():
            if _form(tensor) != form:
                self._changed(method, self._seen[form[0]], note)
        for path, past, held in note.pasts:
            now = _held(past)
            changed = [key for key, value in held.items() if now[key] != value]
            if changed:
                what = f"`{path}.{changed[0]}`, which it was given"
                raise ConformanceError(_fault(method, what))
        for path, tensor in _tensors("", result):
            if tensor.requires_grad:
                raise ConformanceError(
                    f"`{method}` returns a tensor that requires grad; expected one without, such "
                    "as `.detach()` gives"
                )
            self.hold(tensor, f"what `{method}` returned earlier{f' (`{path}`)' if path else ''}")

    def hold(self, tensor: Tensor, name: str) -> None:
        """Compares the tensor after every later call."""
        storage = tensor.untyped_storage()
        self._seen.setdefault(_address(tensor), Seen(storage, _bytes(storage))).name = name
        self._forms.setdefault(id(tensor), (tensor, _form(tensor)))

    def _changed(self, method: str, seen: Seen, note: Note) -> None:
        raise ConformanceError(_fault(method, note.names.get(seen.storage.data_ptr(), seen.name)))


class HeldStreams(Streams):
    """Streams that report the tensors of draws which they share between callers.

    Args:
        seed: see `Streams`.
        replicas: see `Streams`.
        hold: is called with each shared tensor and a description of it.
    """

    def __init__(self, seed: int, replicas: list[int], hold: Callable[[Tensor, str], None]) -> None:
        super().__init__(seed, replicas)
        self._hold = hold

    def __getitem__(self, purpose: Purpose) -> Stream:
        if purpose not in self._streams:
            stream = _HeldStream(self.seed, self.replicas, purpose, self.device)
            stream.hold = self._hold
            self._streams[purpose] = stream
        return self._streams[purpose]


class _HeldStream(Stream):
    hold: Callable[[Tensor, str], None]

    def _ahead(self, index: int, width: int, shift: int) -> Tensor:
        rows = super()._ahead(index, width, shift)
        self.hold(rows, "the draws of a stream, which it was given")
        return rows


def _fault(method: str, what: str) -> str:
    return f"`{method}` changes {what}; no such tensor may change: work on a `.clone()`"


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _bytes(storage: torch.UntypedStorage) -> bytes:
    raw = torch.empty(0, dtype=torch.uint8, device=storage.device)
    return raw.set_(storage).cpu().numpy().tobytes()


def _form(tensor: Tensor) -> tuple[Any, ...]:
    place = (_address(tensor), tensor.storage_offset())
    return (*place, tensor.shape, tensor.stride(), tensor.dtype, tensor.requires_grad)


def _held(past: History | Outcomes) -> dict[str, Any]:
    """What a history or some outcomes hold, in a form that can be compared."""
    state = past._asdict() if isinstance(past, Outcomes) else past.state()
    return {name: _comparable(value) for name, value in state.items()}


def _comparable(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().cpu().numpy().tobytes()
    if isinstance(value, Mapping):
        return {key: _comparable(item) for key, item in value.items()}
    return [_comparable(item) for item in value] if isinstance(value, list) else value


def _pasts(path: str, value: Any) -> Iterator[tuple[str, History | Outcomes]]:
    """The histories and outcomes that a part reaches through an argument.

    Outcomes are views of the memory of a history, which goes on being written to beside them.
    """
    if isinstance(value, (History, Outcomes)):
        yield path, value
    elif isinstance(value, Candidates):
        yield f"{path}.history", value.history


def _tensors(path: str, value: Any) -> Iterator[Named]:
    """The tensors inside an argument or a result, each with its path."""
    if isinstance(value, Outcomes):
        return
    if isinstance(value, Tensor) and value.layout is torch.strided:
        yield path, value
    for key, item in _inside(value):
        yield from _tensors(f"{path}{key}" if path else key.lstrip("."), item)


def _inside(value: Any) -> Iterable[tuple[str, Any]]:
    """The values inside a value, each with the path to it."""
    if isinstance(value, Mapping):
        return [(f"[{key!r}]", item) for key, item in value.items()]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(f".{name}", getattr(value, name)) for name in value._fields]
    if isinstance(value, (list, tuple)):
        return [(f"[{place}]", item) for place, item in enumerate(value)]
    if isinstance(value, RewardModel):
        return [(f".{name}", item) for name, item in vars(value).items()]
    if isinstance(value, Past):  # computed once, and shared by all callers
        names = ["count", "mean", "variance"]
        return [
            *((f".{name}", getattr(value, name)) for name in names),
            *((f".every.{name}", getattr(value.every, name)) for name in names),
        ]
    if isinstance(value, Candidates):
        names = ["contexts", "groups", "division", "rounds", "model", "of_round", "own_model"]
        names += ["scores", "upper_scores", "rounding"]
        names += ["present", *(one for one in ("index", "upper_index") if hasattr(value, one))]
        names += ["past"] if "contexts" in value.history.needs else []
        return [(f".{name}", getattr(value, name)) for name in names]
    if isinstance(value, Problem):
        return [(".truth", value.truth)]
    if isinstance(value, Truth):
        inner = getattr(value.cdf, "__dict__", {})
        return [(".theta", value.theta), *((f".cdf.{name}", item) for name, item in inner.items())]
    if is_dataclass(value) and not isinstance(value, type):
        return [(f".{part.name}", getattr(value, part.name)) for part in fields(value)]
    return []

"""Parts under watch: what a call of one of their methods changes that is not the part's own."""

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
"""A tensor and how the part reaches it."""


class Watch(Protocol):
    """Looks before and after each call of a part's method."""

    def hold(self, tensor: Tensor, name: str) -> None:
        """Takes note of a tensor that the part is given otherwise than as an argument."""

    def before(self, part: Any, given: Mapping[str, Any]) -> Any:
        """Takes note of how things are; `given` are the arguments by name."""

    def after(self, method: str, result: Any, note: Any) -> None:
        """Compares with the note that `before` took.

        Raises:
            ConformanceError: the call changed something that it must leave alone.
        """


def watched(kind: str, part: Any, watch: Watch) -> None:
    """Puts a part under watch: from now on it looks at every call of the part's own methods.

    These are the methods of its kind's contract that the part's class writes or overrides; what
    it inherits from the contract's base class is fairbandit's.
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
    """Watches values that can be read at any time: a call must leave them as they were.

    Args:
        read: the values by name.
        fault: what a method did to the values of these names, in words.
    """

    def __init__(
        self, read: Callable[[], Mapping[str, Any]], fault: Callable[[str, list[str]], str]
    ) -> None:
        self._read, self._fault = read, fault

    def hold(self, tensor: Tensor, name: str) -> None:
        """Nothing: tensors are no concern of it."""

    def before(self, part: Any, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """The values as they are; see `Watch`."""
        return self._read()

    def after(self, method: str, result: Any, note: Mapping[str, Any]) -> None:
        """Compares the values; see `Watch`."""
        now = self._read()
        changed = [name for name, value in note.items() if now[name] != value]
        if changed:
            raise ConformanceError(self._fault(method, changed))


@dataclass
class Seen:
    """What `Memory` knows of one piece of memory.

    Attributes:
        storage: the memory.
        content: the bytes that it held when it was first seen.
        name: what it was last given as, or which method returned it.
        grows: whether a history adds to it between calls, so that `content` is of the last call.
    """

    storage: torch.UntypedStorage
    content: bytes
    name: str = ""
    grows: bool = False


@dataclass
class Note:
    """What `Memory` notes before a call.

    Attributes:
        names: what the call's own arguments are, by the address of their memory.
        pasts: how the call reaches a history or outcomes, and what these hold.
    """

    names: dict[int, str] = field(default_factory=dict)
    pasts: list[tuple[str, History | Outcomes, dict[str, Any]]] = field(default_factory=list)


class Memory:
    """Watches all tensors that a part was given or has returned: none may change from then on.

    Whole pieces of memory are compared byte by byte, so that views, writing through NumPy and
    `.data` count, in and out of inference mode; and of each tensor its shape, its memory and
    whether it requires grad.
    """

    def __init__(self) -> None:
        self._seen: dict[int, Seen] = {}
        self._forms: dict[int, tuple[Tensor, tuple[Any, ...]]] = {}  # keeps the tensors alive

    def before(self, part: Any, given: Mapping[str, Any]) -> Note:
        """Notes all that the part can reach; see `Watch`."""
        note = Note()
        for seen in self._seen.values():
            if seen.grows:
                seen.content = _bytes(seen.storage)
        problem, truth = getattr(part, "problem", None), getattr(part, "truth", None)
        reach = {"problem": problem, "truth": truth, **given}
        for name, value in reach.items():
            for path, tensor in _tensors(name, value):
                note.names.setdefault(_address(tensor), f"`{path}`, which it was given")
                self.hold(tensor, f"`{path}`, which it was given earlier")
                self._seen[_address(tensor)].grows |= isinstance(value, Outcomes)
            note.pasts += [(path, past, _held(past)) for path, past in _pasts(name, value)]
        return note

    def after(self, method: str, result: Any, note: Note) -> None:
        """Compares all with what it was; see `Watch`."""
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
                raise ConformanceError(_fault(method, f"`{path}` ({', '.join(changed)})"))
        for path, tensor in _tensors("", result):
            if tensor.requires_grad:
                raise ConformanceError(
                    f"`{method}` returns a tensor that requires grad; expected one without, such "
                    "as `.detach()` gives"
                )
            self.hold(tensor, f"what `{method}` returned earlier{f' (`{path}`)' if path else ''}")

    def hold(self, tensor: Tensor, name: str) -> None:
        """From now on a tensor must stay as it is."""
        storage = tensor.untyped_storage()
        self._seen.setdefault(_address(tensor), Seen(storage, _bytes(storage))).name = name
        self._forms.setdefault(id(tensor), (tensor, _form(tensor)))

    def _changed(self, method: str, seen: Seen, note: Note) -> None:
        raise ConformanceError(_fault(method, note.names.get(seen.storage.data_ptr(), seen.name)))


class HeldStreams(Streams):
    """Streams whose draws must stay as they were drawn: those of a few rounds are shared.

    Args:
        seed: as of `Streams`.
        replicas: as of `Streams`.
        hold: is told of every tensor of draws that is shared, and how a part reaches it.
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
    """All that a history or some outcomes hold, comparable."""
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
    """The tensors that a part reaches through an argument, and those of a result."""
    if isinstance(value, Outcomes):
        return
    if isinstance(value, Tensor) and value.layout is torch.strided:
        yield path, value
    for key, item in _inside(value):
        yield from _tensors(f"{path}{key}" if path else key.lstrip("."), item)


def _inside(value: Any) -> Iterable[tuple[str, Any]]:
    """What lies inside a value, and how it is reached from there."""
    if isinstance(value, Mapping):
        return [(f"[{key!r}]", item) for key, item in value.items()]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(f".{name}", getattr(value, name)) for name in value._fields]
    if isinstance(value, (list, tuple)):
        return [(f"[{place}]", item) for place, item in enumerate(value)]
    if isinstance(value, RewardModel):
        return [(f".{name}", item) for name, item in vars(value).items()]
    if isinstance(value, Past):  # what is computed once is shared by all that ask
        names = ["count", "mean", "variance"]
        return [
            *((f".{name}", getattr(value, name)) for name in names),
            *((f".every.{name}", getattr(value.every, name)) for name in names),
        ]
    if isinstance(value, Candidates):
        names = ["contexts", "groups", "division", "rounds", "model", "of_round", "own_model"]
        names += ["present", "scores", "upper_scores", "rounding"]
        names += [name for name in ("index", "upper_index") if hasattr(value, name)]
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

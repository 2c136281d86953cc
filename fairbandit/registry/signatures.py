"""Converts the signatures of constructors to typed nodes (OmegaConf structured configs)."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from enum import EnumType
from functools import cache, wraps
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from fairbandit.errors import FairbanditError, unknown


class Range(NamedTuple):
    """The range of a number, as in `Annotated[float, Range(0, 1)]`; infinite ends are excluded.

    Attributes:
        low, high: the ends.
        above, below: whether `low`, and `high`, are excluded.
    """

    low: float = -math.inf
    high: float = math.inf
    above: bool = False
    below: bool = False

    def holds(self, value: float) -> bool:
        """Whether a number is in the range."""
        ends = (self.above and value == self.low) or (self.below and value == self.high)
        return math.isfinite(value) and self.low <= value <= self.high and not ends

    def __str__(self) -> str:
        low = f"{'above' if self.above else 'at least'} {self.low:,}"
        high = f"{'below' if self.below else 'at most'} {self.high:,}"
        ends = {low: self.low, high: self.high}
        finite = [] if math.isfinite(self.high) else ["finite"]
        return " and ".join([text for text, end in ends.items() if math.isfinite(end)] + finite)


def check_signature(cls: Any) -> None:
    """Raises an error if a config cannot hold an argument of the constructor."""
    try:
        typed_node(cls, cls.__name__)
    except (OmegaConfBaseException, NameError, SyntaxError, TypeError, ValueError) as error:
        raise FairbanditError(
            f"{place_of(cls)}: no config can hold the arguments of its constructor: "
            f"{' '.join(str(error).split())}; expected keyword-only arguments, not named 'name', "
            "with defaults of their types; a type is bool, int, float, str, bytes, pathlib.Path or "
            "an Enum; a union of them; a list, Sequence, tuple, dict or Mapping of them; any such "
            "type or None; or Any"
        ) from error


def check_arguments(cls: Any) -> None:
    """Makes a constructor check ranges, and accept members of enums by name, like a config.

    For example, `Table(missing="mean")` is `Table(missing=Missing.mean)`.
    """
    init, hints = cls.__init__, hints_of(cls)
    inside = [(key, hint) for key in parameters_of(cls) for hint in _inside(hints[key])]
    members: dict[str, Mapping[str, Any]] = {
        key: hint.__members__ for key, hint in inside if isinstance(hint, EnumType)
    }
    ranges = {key: hint for key, hint in inside if isinstance(hint, Range)}

    @wraps(init)
    def checked(self: Any, **values: Any) -> None:
        for key, choices in members.items():
            name = values.get(key)
            if isinstance(name, str):
                if name not in choices:
                    raise unknown(f"{key} of {cls.__name__}", name, choices)
                values[key] = choices[name]
        for key, within in ranges.items():
            value = values.get(key)
            if not (value is None or within.holds(value)):
                raise FairbanditError(f"{key} must be {within}, got {value}")
        init(self, **values)

    if members or ranges:
        cls.__init__ = checked


@cache
def typed_node(cls: Any, name: str) -> DictConfig:
    """Returns the typed node of a class, a config that must not be modified."""
    hints, fields = hints_of(cls), [("name", str, dataclasses.field(default=name))]
    for key, parameter in parameters_of(cls).items():
        if parameter.kind is not parameter.KEYWORD_ONLY or key not in hints:
            raise TypeError(f"{key!r} is not keyword-only and annotated")
        fields.append((key, _omegaconf_type(hints[key]), _field(parameter.default)))
    schema: Any = dataclasses.make_dataclass(f"{cls.__name__}Config", fields, kw_only=True)
    return OmegaConf.structured(schema)


def parameters_of(cls: type[Any]) -> dict[str, inspect.Parameter]:
    """Returns the arguments of a constructor, without `self`."""
    return dict(inspect.signature(cls).parameters)


def hints_of(cls: Any) -> dict[str, Any]:
    """Returns the types of a constructor's arguments, which may be fields of a dataclass."""
    fields, keys = getattr(cls, "__dataclass_fields__", {}), parameters_of(cls).keys()
    made = bool(keys) and keys <= fields.keys()
    return get_type_hints(cls if made else cls.__init__, include_extras=True)


def place_of(cls: type[Any]) -> str:
    """Returns the name of a class, with the file and line of its definition if known."""
    try:
        file, line = inspect.getsourcefile(cls), inspect.getsourcelines(cls)[1]
    except (OSError, TypeError):  # defined without a source file, as at an interactive prompt
        return f"{cls.__module__}.{cls.__qualname__}"
    return f"{cls.__qualname__} ({file}:{line})"


def _field(default: Any) -> Any:
    value = MISSING if default is inspect.Parameter.empty else default
    return dataclasses.field(default_factory=lambda: value)  # a default may be a list or a mapping


def _inside(hint: Any) -> Iterator[Any]:
    yield hint
    for part in get_args(hint):
        yield from _inside(part)


def _omegaconf_type(hint: Any) -> Any:
    if get_origin(hint) is Annotated:
        return _omegaconf_type(get_args(hint)[0])
    # a typed dict rejects new keys once Hydra has composed it, so constructors check mappings
    if hint is Mapping or get_origin(hint) is Mapping:
        return Any
    if hint is Sequence:
        return list
    origin, inside = get_origin(hint), tuple(map(_omegaconf_type, get_args(hint)))
    if origin in (Union, UnionType):
        return Union[inside]  # noqa: UP007 - the types are only known now
    return list[inside[0]] if origin is Sequence else hint  # type: ignore[valid-type]

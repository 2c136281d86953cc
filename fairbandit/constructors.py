"""Constructors as typed nodes: which arguments a config can hold, and their values by type."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import cache, partial, wraps
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from omegaconf import MISSING, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from fairbandit.errors import FairbanditError

HOLDABLE = (
    "bool, int, float, str, bytes, pathlib.Path or an Enum; a union of these; a list, Sequence, "
    "tuple, dict or Mapping of these; any of these or None; or Any"
)
"""The annotations of constructor arguments that a config can hold."""


def check_signature(cls: type[Any]) -> None:
    """Refuses a constructor whose arguments no config can hold."""
    try:
        hints = get_type_hints(cls.__init__)
    except (NameError, TypeError, SyntaxError) as error:
        raise FairbanditError(
            f"{place_of(cls)}: the annotations of its constructor cannot be read: {error}; import "
            "what they name where the module is run"
        ) from error
    parameters = parameters_of(cls)
    for key, parameter in parameters.items():
        if parameter.kind is not parameter.KEYWORD_ONLY or key not in hints:
            raise FairbanditError(
                f"{place_of(cls)}: constructor argument {key!r} must be keyword-only and typed"
            )
        if key == "name":
            raise FairbanditError(
                f"{place_of(cls)}: no constructor argument can be called 'name', which is the key "
                "of the registered name; rename it"
            )
    if _holdable(_field(key, hints[key], one) for key, one in parameters.items()):
        return  # all at once is fast; one by one says which is at fault
    for key, parameter in parameters.items():
        argument = f"{place_of(cls)}: constructor argument {key!r}"
        given = inspect.formatannotation(hints[key])
        if not _holdable([_field(key, hints[key], parameter.replace(default=parameter.empty))]):
            raise FairbanditError(
                f"{argument} is annotated {given}, which no config can hold; expected {HOLDABLE}"
            )
        if not _holdable([_field(key, hints[key], parameter)]):
            raise FairbanditError(
                f"{argument} has the default {parameter.default!r}, which is no {given}"
            )


def name_enums(cls: type[Any]) -> None:
    """Makes a constructor take the members of enums by name too, and refuse all else.

    So `Table(missing="mean")` is `Table(missing=Missing.mean)`, as it is in a config.
    """
    if "__init__" not in vars(cls):
        return  # inherited, and wrapped where it is defined
    hints, init = get_type_hints(cls.__init__), cls.__init__
    found = {key: (hints[key], *get_args(hints[key])) for key in parameters_of(cls)}
    enums = {key: next(filter(_is_enum, kinds), None) for key, kinds in found.items()}
    if not any(enums.values()):
        return

    @wraps(init)
    def checked(self: Any, **values: Any) -> None:
        for key, kind in enums.items():
            value = values.get(key)
            if kind is None or key not in values or (value is None and NoneType in found[key]):
                continue
            if isinstance(value, str) and value in kind.__members__:
                values[key] = kind[value]
            elif not isinstance(value, kind):
                raise FairbanditError(
                    f"{cls.__name__}, {key}: expected one of {', '.join(kind.__members__)}; got "
                    f"{value!r}"
                )
        init(self, **values)

    cls.__init__ = checked


def _is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Enum)


@cache
def typed_node(cls: type[Any], name: str) -> tuple[type[Any], Any]:
    """The typed node of a class, and the same as a config that nothing changes."""
    hints, fields = get_type_hints(cls.__init__), [("name", str, dataclasses.field(default=name))]
    fields += [_field(key, hints[key], one) for key, one in parameters_of(cls).items()]
    typed = dataclasses.make_dataclass(f"{cls.__name__}Config", fields, kw_only=True)
    return typed, OmegaConf.structured(typed)


def converted(cls: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """All arguments of a class and its name, of the types that the constructor declares.

    Raises:
        OmegaConfBaseException: a value of another type, or one that is missing.
    """
    merged = OmegaConf.merge(typed_node(cls, values["name"])[1], values)
    arguments: Any = OmegaConf.to_container(merged, throw_on_missing=True)
    return arguments


def parameters_of(cls: type[Any]) -> dict[str, inspect.Parameter]:
    """The arguments of a constructor, but for `self`."""
    own = cls.__init__ is not object.__init__
    return dict(list(inspect.signature(cls.__init__).parameters.items())[1:]) if own else {}


def place_of(cls: type[Any]) -> str:
    """Returns the name of a class with the file and the line where it is defined, if known."""
    try:
        file, line = inspect.getsourcefile(cls), inspect.getsourcelines(cls)[1]
    except (OSError, TypeError):  # defined where there is no source, as at a prompt
        return f"{cls.__module__}.{cls.__qualname__}"
    return f"{cls.__qualname__} ({file}:{line})"


def _holdable(fields: Iterable[tuple[str, Any, Any]]) -> bool:
    """Whether a config can hold arguments of these types and defaults."""
    try:
        OmegaConf.structured(dataclasses.make_dataclass("Config", fields, kw_only=True))
    except (OmegaConfBaseException, TypeError, ValueError):
        return False
    return True


def _field(key: str, hint: Any, parameter: inspect.Parameter) -> tuple[str, Any, Any]:
    """An argument as `dataclasses.make_dataclass` takes it."""
    default = MISSING if parameter.default is parameter.empty else parameter.default
    if isinstance(default, (list, tuple, dict)):
        kind = dict if isinstance(default, dict) else list
        field = dataclasses.field(default_factory=partial(kind, default))
    else:
        field = dataclasses.field(default=default)
    return key, _omegaconf_type(hint), field


def _omegaconf_type(hint: Any) -> Any:
    """The concrete type that OmegaConf needs for a type hint.

    A typed dict accepts no new keys once Hydra has composed it, so a mapping becomes `Any` and is
    checked by its constructor.
    """
    if hint is Mapping or get_origin(hint) is Mapping:
        return Any
    if hint is Sequence:
        return list
    origin, inside = get_origin(hint), tuple(map(_omegaconf_type, get_args(hint)))
    if origin in (Union, UnionType):
        return Union[inside]  # noqa: UP007 - the types are only known now
    return list[inside[0]] if origin is Sequence else hint  # type: ignore[valid-type]

"""Constructors as typed nodes: which arguments a config can hold, and their values by type."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from enum import EnumType
from functools import cache, wraps
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from fairbandit.errors import FairbanditError


def check_signature(cls: Any) -> None:
    """Refuses a constructor with an argument that no config can hold."""
    try:
        typed_node(cls, cls.__name__)
    except (OmegaConfBaseException, NameError, SyntaxError, TypeError, ValueError) as error:
        raise FairbanditError(
            f"{place_of(cls)}: no config can hold the arguments of its constructor: "
            f"{' '.join(str(error).split())}; expected keyword-only arguments, none called 'name', "
            "each annotated with bool, int, float, str, bytes, pathlib.Path or an Enum; a union of "
            "these; a list, Sequence, tuple, dict or Mapping of these; any of these or None; or "
            "Any; and each default of its type"
        ) from error


def name_enums(cls: Any) -> None:
    """Has a constructor take the members of enums by name too, as a config does, and check them.

    So `Table(missing="mean")` is `Table(missing=Missing.mean)`.
    """
    init, hints = cls.__init__, get_type_hints(cls.__init__)
    enums = {
        key: hint
        for key in parameters_of(cls)
        for hint in (hints[key], *get_args(hints[key]))
        if isinstance(hint, EnumType)
    }

    @wraps(init)
    def checked(self: Any, **values: Any) -> None:
        for key, enum in enums.items():
            if isinstance(value := values.get(key), str):
                members: Mapping[str, Any] = enum.__members__
                where = f"{cls.__name__}, {key}"
                if value not in members:
                    raise FairbanditError(
                        f"{where}: expected one of {', '.join(members)}; got {value!r}"
                    )
                values[key] = members[value]
        init(self, **values)

    if enums:
        cls.__init__ = checked


@cache
def typed_node(cls: Any, name: str) -> DictConfig:
    """The typed node of a class, as a config that nothing changes."""
    hints, fields = get_type_hints(cls.__init__), [("name", str, dataclasses.field(default=name))]
    for key, parameter in parameters_of(cls).items():
        if parameter.kind is not parameter.KEYWORD_ONLY or key not in hints:
            raise TypeError(f"{key!r} is not keyword-only and annotated")
        fields.append((key, _omegaconf_type(hints[key]), _field(parameter.default)))
    made: Any = dataclasses.make_dataclass(f"{cls.__name__}Config", fields, kw_only=True)
    return OmegaConf.structured(made)


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


def _field(default: Any) -> Any:
    if isinstance(default, (list, tuple, dict)):
        kind = dict if isinstance(default, dict) else list
        return dataclasses.field(default_factory=lambda: kind(default))
    return dataclasses.field(default=MISSING if default is inspect.Parameter.empty else default)


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

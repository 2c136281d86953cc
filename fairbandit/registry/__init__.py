"""The registry of parts by name; a class is added with `@register(kind, name)`.

Importing the package's folders, as `fairbandit.policy.build` does, registers its own parts.

Building from plain data and composing on the command line both use the typed node (an OmegaConf
structured config) of the constructor's signature, the only definition of keys, types and defaults.
"""

from __future__ import annotations

import inspect
import re
import sys
import traceback
from abc import ABC
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar

from omegaconf import OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from fairbandit.errors import FairbanditError, did_you_mean, type_of, unknown
from fairbandit.registry.plugins import VARIABLE, place_of_file
from fairbandit.registry.plugins import load_plugins as load_plugins
from fairbandit.registry.signatures import (
    Range,
    check_arguments,
    check_signature,
    parameters_of,
    place_of,
    typed_node,
)

PART_KINDS = ("split", "estimator", "rank", "selector")
"""The four kinds of part that make a policy, in the order in which a round uses them."""

KINDS = (*PART_KINDS, "environment", "metric")
"""All kinds of classes that can be registered."""

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
"""The pattern of registered names, which appear on the command line, in folders and in YAML."""

_registry: dict[str, dict[str, type[Any]]] = {kind: {} for kind in KINDS}
_bases: dict[str, type[Any]] = {}

C = TypeVar("C", bound=type[Any])


class Registered:
    """A class with a kind and a name; its text has both, such as "rank 'tradeoff'"."""

    _kind: ClassVar[str]
    _name: ClassVar[str]

    def __str__(self) -> str:
        return f"{self._kind} {getattr(self, '_name', type(self).__name__)!r}"


def base(kind: str) -> Callable[[C], C]:
    """Class decorator: makes a class the base class of all classes of a kind."""

    def decorate(cls: C) -> C:
        cls._kind, _bases[kind] = kind, cls
        return cls

    return decorate


def base_of(kind: str) -> type[Any]:
    """The base class of a kind."""
    return _bases[kind]


def register(kind: str, name: str) -> Callable[[C], C]:
    """Class decorator: registers a class of one of `KINDS` under a name that matches `NAME`.

    Raises:
        FairbanditError: the kind is unknown, the name is taken or invalid, the class lacks a
            method of its kind, or no config can hold an argument of its constructor.
    """
    if kind not in _registry:
        raise FairbanditError(f"cannot register a {kind!r}: the kinds are {', '.join(KINDS)}")
    if not (isinstance(name, str) and NAME.fullmatch(name)):
        raise FairbanditError(
            f"cannot register a {kind} as {name!r}: expected a name of at most 64 letters (a to "
            "z), digits, '_' and '-', which begins with a letter"
        )

    def decorate(cls: C) -> C:
        needed, lacking = base_of(kind), sorted(getattr(cls, "__abstractmethods__", ()))
        if not (isinstance(cls, type) and issubclass(cls, needed)) or lacking:
            raise FairbanditError(
                f"cannot register {place_of(cls)} as {kind} {name!r}: expected a subclass of "
                f"{needed.__module__.rpartition('.')[0]}.{needed.__name__}"
                + (f" that implements {', '.join(lacking)}" if lacking else "")
            )
        known = _registry[kind].get(name)
        if known is not None and place_of(known) != place_of(cls):
            raise FairbanditError(
                f"two classes are registered as {kind} {name!r}: "
                f"{place_of(known)} and {place_of(cls)}; rename one of them"
            )
        cls._name = name
        check_signature(cls)  # an invalid constructor fails when the class is defined
        check_arguments(cls)
        _registry[kind][name] = cls
        return cls

    return decorate


def names(kind: str) -> list[str]:
    """Returns the registered names of one kind, sorted."""
    return sorted(_registry[kind])


def lookup(kind: str, name: str) -> type[Any]:
    """The class registered under a name; an error lists the valid names."""
    try:
        return _registry[kind][name]
    except KeyError:
        raise FairbanditError(
            f"{unknown(kind, name, names(kind))}; fairbandit.load_plugins(), which the command "
            f"line calls, registers plugins from plugins/, from the folders named in {VARIABLE} "
            "and from installed packages"
        ) from None


def create(kind: str, spec: str | Mapping[str, Any] | Registered) -> Any:
    """Builds one part from plain data: its name, or a mapping with `name` and hyperparameters.

    A part that was made in Python is returned as it is.
    """
    if isinstance(spec, Registered):
        if not isinstance(spec, base_of(kind)):
            raise FairbanditError(f"expected {kind}, got {spec}")
        return spec
    return checked(kind, spec).build()


def completed(kind: str, spec: str | Mapping[str, Any]) -> dict[str, Any]:
    """Returns a part's description with all its parameters, checked like `create` but not built."""
    return checked(kind, spec).described()


class Checked(NamedTuple):
    """The class of a part, and the checked arguments of its constructor."""

    cls: Any
    arguments: Mapping[str, Any]

    def build(self) -> Any:
        """Builds the part."""
        return self.cls(**self.arguments)

    def described(self) -> dict[str, Any]:
        """Returns the name and all parameters as plain data."""
        return {"name": self.cls._name, **_to_plain(self.arguments)}


def checked(kind: str, spec: str | Mapping[str, Any]) -> Checked:
    """Checks the description of a part like `create`, without building the part."""
    values = dict(spec) if isinstance(spec, Mapping) else {"name": spec}
    if not isinstance(values.get("name"), str):
        raise FairbanditError(
            f"{kind}: expected a registered name, or a mapping with 'name'; got {spec!r}; "
            f"the registered ones are {', '.join(names(kind))}"
        )
    cls: Any = lookup(kind, values["name"])
    where, typed = f"{kind} {cls._name!r}", typed_node(cls, values["name"])
    takes = [str(key) for key in typed if key != "name"]
    if unknown := sorted(values.keys() - {"name", *takes}, key=str):
        raise FairbanditError(
            f"{where} has no parameter {unknown[0]!r}{did_you_mean(unknown[0], takes)}; "
            f"it takes {', '.join(takes) or 'none'}"
        )
    for key, value in values.items():
        if hasattr(value, "__array__"):
            got = f"got {type_of(value)}: a column is given by its name"
            raise FairbanditError(f"{where}, {key}: expected plain data; {got}")
    if "${" in repr(values):
        raise FairbanditError(
            f"{where}: expected plain data; got {values}, with an interpolation, which only config "
            "files and the command line resolve"
        )
    try:
        arguments: Any = OmegaConf.to_container(
            OmegaConf.merge(typed, values), throw_on_missing=True
        )
    except OverflowError as error:
        raise FairbanditError(f"{where}: {error}") from error
    except OmegaConfBaseException as error:
        key, reason = error.full_key or error.key, str(error).splitlines()[0]
        if isinstance(error, MissingMandatoryValue):
            reason = f"Missing mandatory value: give {key}=..."
        elif "is not a ListConfig" in reason:
            reason = f"expected a list, as in {key}=[{values.get(key)}]"
        raise FairbanditError(f"{where}, {key}: {reason}") from error
    del arguments["name"]
    return Checked(cls, arguments)


def line_of(error: BaseException) -> str | None:
    """ "FILE:LINE" of the innermost call in a plugin that led to an error; None without."""
    modules = {cls.__module__ for classes in _registry.values() for cls in classes.values()}
    files = {
        getattr(sys.modules.get(module), "__file__", None)
        for module in modules
        if not module.startswith("fairbandit.")
    }
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename in files or place_of_file(frame.filename):
            return f"{frame.filename}:{frame.lineno}"
    return None


def describe(part: Any) -> dict[str, Any]:
    """Returns a part's attributes as plain data, from which `create` builds an equal part."""
    plain = {key: _to_plain(getattr(part, key)) for key in parameters_of(type(part))}
    return {"name": part._name, **plain}


def summary(cls: type[Any]) -> str:
    """Returns the first line of a class's docstring."""
    return (inspect.getdoc(cls) or "").split("\n", 1)[0]


def _to_plain(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _to_plain(item) for key, item in data.items()}
    if isinstance(data, (list, tuple)):
        return [_to_plain(item) for item in data]
    if isinstance(data, Enum):
        return data.name
    if isinstance(data, Path):
        return str(data)
    if data is None or isinstance(data, (str, int, float, bytes)):
        return data
    # made in Python: a text, from which nothing can be built again
    name = getattr(data, "__qualname__", None)
    return f"{data.__module__}.{name}" if name else " ".join(repr(data).split())


PAPER = "Grazzi et al., Group Meritocratic Fairness in Linear Contextual Bandits, NeurIPS 2022"

NEEDS = frozenset({"contexts", "rewards", "picks", "truth", "refresh", "bounds", "pool"})
"""The needs that a part may declare.

contexts: the past contexts in the rank window, as `scored.past`. rewards: all past picks with their
rewards, as `scored.outcomes` and as the outcomes that an estimator receives. picks: how often each
group was picked, as `ranked.pick_counts`. Rewards and picks are read up to the round before. truth:
the truth of the problem, which is None for a policy without this need.
refresh: a `refresh` of the policy, since a fit takes long. bounds: bounds of the index, as
`ranked.bounds`. pool: the other candidates of the pool, on which a rank's index of a candidate then
depends; `rolling` cannot use such a rank.
"""

Positive = Annotated[float, Range(0, above=True)]
NonNegative = Annotated[float, Range(0)]
Share = Annotated[float, Range(0, 1)]
InnerShare = Annotated[float, Range(0, 1, above=True, below=True)]
Count = Annotated[int, Range(1)]
"""The types of hyperparameters that have a range."""


class Part(Registered, ABC):
    """A split, an estimator, a rank or a selector: a function and its hyperparameters.

    A constructor takes plain, keyword-only hyperparameters and stores each under its own name, like
    `@dataclass(kw_only=True, eq=False)`. It raises a `FairbanditError` if one is out of range.
    Nothing is stored after that, so that policies, runs and threads can share a part. A part
    overrides methods whose names begin with an underscore; public methods call and check them.
    """

    needs: ClassVar[frozenset[str]] = frozenset()
    """The needs of the part: a subset of `NEEDS`."""
    reference: ClassVar[str] = ""
    """The source of the part in the literature."""

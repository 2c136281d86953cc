"""Every public name is in the reference."""

import inspect
import pkgutil
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from types import ModuleType

import fairbandit
from tests.docs.pages import DOCS

MODULES = [
    fairbandit,
    *(
        import_module(f"fairbandit.{found.name}")
        for found in pkgutil.iter_modules(fairbandit.__path__)
        if found.name != "__main__"
    ),
]
"""The package and what lies in it; deeper modules are public through these alone."""

TOLD = re.findall(
    r"^::: (\S+)$",
    "\n".join(file.read_text(encoding="utf-8") for file in sorted(DOCS.rglob("*.md"))),
    re.MULTILINE,
)
"""What the pages of the reference ask for: modules, with all of their public names, and objects."""


def names(module: ModuleType) -> Iterable[str]:
    """The public names of a module: its `__all__`, or the classes and functions that it defines."""
    return getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
    ]


def shown() -> Iterator[tuple[object, set[str]]]:
    """Every public object that the reference shows, with the places where it may stand."""
    for name in TOLD:
        try:
            module, inside = import_module(name), None
        except ModuleNotFoundError:
            module, inside = import_module(name.rpartition(".")[0]), [name.rpartition(".")[2]]
        for each in inside or names(module):
            value = getattr(module, each)
            origin = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
            yield value, {f"{module.__name__}.{each}", origin}


def test_every_public_name_is_in_the_reference():
    there = {id(value) for value, _ in shown()}
    public = [(module, name) for module in MODULES for name in getattr(module, "__all__", ())]
    assert len(public) > 100
    missing = [f"{m.__name__}.{name}" for m, name in public if id(getattr(m, name)) not in there]
    assert not missing, f"no page of docs/reference shows {', '.join(missing)}"

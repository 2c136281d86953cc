"""Every public name is in the reference."""

import pkgutil
import re
from importlib import import_module
from inspect import isclass, isfunction

import fairbandit
from tests.docs.pages import DOCS

MODULES = [
    "fairbandit",
    *(f"fairbandit.{each.name}" for each in pkgutil.iter_modules(fairbandit.__path__)),
]
"""The package and what lies in it; deeper modules are public through these alone."""


def public(name: str) -> dict[str, object]:
    """The objects of a module's `__all__`, or else the classes and functions that it defines."""
    module = import_module(name)
    own = [
        each
        for each, value in vars(module).items()
        if (isclass(value) or isfunction(value)) and value.__module__ == name and each[0] != "_"
    ]
    return {f"{name}.{each}": getattr(module, each) for each in getattr(module, "__all__", own)}


def shown() -> dict[str, object]:
    """Every object that the reference shows: all of a module's, or a single one."""
    found: dict[str, object] = {}
    pages = [file.read_text(encoding="utf-8") for file in (DOCS / "reference").glob("*.md")]
    for name in re.findall(r"^::: (\S+)$", "\n".join(pages), re.MULTILINE):
        if name in MODULES:
            found |= public(name)
        else:
            module, _, last = name.rpartition(".")
            found[name] = getattr(import_module(module), last)
    return found


def test_every_public_name_is_in_the_reference():
    there = {id(value) for value in shown().values()}
    names = {
        name: value
        for module in MODULES
        if hasattr(import_module(module), "__all__")
        for name, value in public(module).items()
    }
    assert len(names) > 100
    missing = [name for name, value in names.items() if id(value) not in there]
    assert not missing, f"no page of docs/reference shows {', '.join(missing)}"

"""Every public name is in the reference."""

import pkgutil
import re
from importlib import import_module

import fairbandit
from tests.docs.pages import DOCS

MODULES = [
    "fairbandit",
    *(f"fairbandit.{each.name}" for each in pkgutil.iter_modules(fairbandit.__path__)),
]
"""The package and what lies in it; deeper modules are public through these alone."""


def public(module: str) -> dict[str, object]:
    """The objects that a module lists in `__all__`, by their dotted names."""
    found = import_module(module)
    return {f"{module}.{name}": getattr(found, name) for name in getattr(found, "__all__", ())}


def test_every_public_name_is_in_the_reference():
    pages = "\n".join(file.read_text("utf-8") for file in (DOCS / "reference").glob("*.md"))
    shown: dict[str, object] = {}
    for name in re.findall(r"^::: (\S+)$", pages, re.MULTILINE):
        module, _, last = name.rpartition(".")
        one = {} if name in MODULES else {name: getattr(import_module(module), last)}
        shown |= one or public(name)
    there = {id(value) for value in shown.values()}
    names = {name: value for module in MODULES for name, value in public(module).items()}
    assert len(names) > 100
    missing = [name for name, value in names.items() if id(value) not in there]
    assert not missing, f"no page of docs/reference shows {', '.join(missing)}"

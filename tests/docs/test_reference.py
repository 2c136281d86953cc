"""Every public name is in the reference."""

import pkgutil
import re
from importlib import import_module

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

SHOWN = re.findall(
    r"^::: (\S+)$",
    "\n".join(file.read_text(encoding="utf-8") for file in sorted(DOCS.rglob("*.md"))),
    re.MULTILINE,
)
"""The modules that the reference shows, with all of their public names."""


def names(module):
    """The public names of a module: its `__all__`, or what it defines."""
    return getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def test_every_public_name_is_in_the_reference():
    pages = [import_module(name) for name in SHOWN]
    there = {id(getattr(module, name)) for module in pages for name in names(module)}
    public = [(module, name) for module in MODULES for name in getattr(module, "__all__", ())]
    assert len(public) > 100
    missing = [f"{m.__name__}.{name}" for m, name in public if id(getattr(m, name)) not in there]
    assert not missing, f"no page of docs/reference shows {', '.join(missing)}"

"""The modules of plugins that a part depends on, with hashes of their sources.

Imports are read from the source, including those within functions, so that the answer is the same
before and after a run. A module that looks up other modules or parts by a computed name is taken to
depend on all plugins.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.machinery import PathFinder
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

from fairbandit import plugins
from fairbandit.run.hashes import sha256

_BUILTINS = {"__import__", "exec", "eval"}
_LOOKUPS = {
    *("import_module", "find_spec", "spec_from_file_location", "SourceFileLoader"),
    *("run_path", "run_module", "iter_modules", "walk_packages"),
    *("registry", "lookup", "create", "build"),
}
"""Names through which code uses modules or parts that no import statement names."""


def sources(classes: Iterable[type[Any]]) -> dict[str, str | None]:
    """Returns the modules of plugins that some classes depend on.

    These are the modules that define a class or one of its bases, those whose code registered it,
    and all that they import. The module of a class that is neither the package's own nor a
    plugin's, as in a script, counts without what it imports.

    Args:
        classes: parts and environments.

    Returns:
        For each module its path, as in `my_rank.py` or `my_package/ranks.py`, and the SHA-256 hash
        of its source; None where no source can be read, as of a class made at a prompt.
    """
    found: dict[str, str | None] = {}
    waiting: list[tuple[str, str]] = []
    for cls in classes:
        own = cls.__module__.partition(".")[0] == __name__.partition(".")[0]
        if not own and not _located(cls.__module__):
            found[_label(cls.__module__, "")] = _script(cls.__module__)
        for base in cls.__mro__:
            waiting += _plugins((base.__module__, *vars(base).get("part_modules", ())))
    while waiting:
        name, file = waiting.pop()
        if (label := _label(name, file)) in found:
            continue
        source = plugins.source(name, file)
        found[label] = hashlib.sha256(source).hexdigest()
        if file.endswith(".py"):
            waiting += _imported(source, name, file)
    return dict(sorted(found.items()))


def _imported(source: bytes, name: str, file: str) -> Iterator[tuple[str, str]]:
    """Yields the modules of plugins that a module imports or may import."""
    package = name if _is_package(file) else name.rpartition(".")[0]
    asked: list[str] = []
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # such a module cannot be imported
        return iter(())
    lookups = False
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            asked += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            with suppress(ImportError):  # too many leading dots
                base = resolve_name(f"{'.' * node.level}{node.module or ''}", package)
                asked += [base, *(f"{base}.{alias.name}" for alias in node.names)]
                if node.names[0].name == "*":  # may import each module of the package
                    asked += [name for name, _ in plugins.modules() if name.startswith(f"{base}.")]
            lookups |= any(alias.name in _LOOKUPS for alias in node.names)
        elif isinstance(node, ast.Name):
            lookups |= node.id in _BUILTINS | _LOOKUPS
        elif isinstance(node, ast.Attribute):
            lookups |= node.attr in _LOOKUPS
    if lookups:
        return plugins.modules()
    return _plugins(asked)


def _plugins(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yields those of the modules, and of the packages around them, that belong to plugins."""
    for name in names:
        pieces = name.split(".") if name.strip(".") else []
        for end in range(1, len(pieces) + 1):
            whole = ".".join(pieces[:end])
            file = _located(whole)
            if file is not None:
                yield whole, file


def _located(name: str) -> str | None:
    """Returns the file of a plugin's module without importing it, and None for other modules."""
    file = _file(name)
    return file if plugins.is_plugin(name, file) else None


def _file(name: str) -> str | None:
    if name in sys.modules:
        return getattr(sys.modules[name], "__file__", None)
    spec = PathFinder.find_spec(name, _search(name.rpartition(".")[0]))
    return spec.origin if spec is not None and spec.has_location else None


def _search(package: str) -> list[str] | None:
    """Returns where a package's modules are looked for; None stands for `sys.path`."""
    if not package:
        return None
    if package in sys.modules:
        return list(getattr(sys.modules[package], "__path__", ()))
    spec = PathFinder.find_spec(package, _search(package.rpartition(".")[0]))
    return list((spec and spec.submodule_search_locations) or ())


def _script(name: str) -> str | None:
    """Returns the hash of the file of a loaded module."""
    file = _file(name)
    return sha256(Path(file)) if file is not None and Path(file).is_file() else None


def _is_package(file: str) -> bool:
    return Path(file).stem == "__init__"


def _label(name: str, file: str) -> str:
    """Returns a module's path below the folder that it is imported from."""
    suffix = Path(file).suffix or ".py"
    return name.replace(".", "/") + ("/__init__" if _is_package(file) else "") + suffix

"""Loads plugins: modules in folders, or entry points, that register parts."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from fairbandit.errors import FairbanditError

VARIABLE = "FAIRBANDIT_PLUGINS"
"""The environment variable that names further folders, separated as in PATH."""

GROUP = "fairbandit.plugins"
"""The group of entry points that installed packages use to register parts."""

_places: set[Path] = set()  # plugin folders, and the packages or single files of entry points


def load_plugins() -> None:
    """Imports every plugin, so that its parts are registered. May be called repeatedly.

    Plugins are the *.py files, except names that begin with an underscore, in the checkout's
    `plugins/` and in the folders named in `FAIRBANDIT_PLUGINS`, and the entry points of the group
    `fairbandit.plugins`. Folders are added to `sys.path` and `PYTHONPATH`, so that worker
    processes import the same modules by the same names.

    Raises:
        FairbanditError: a folder is missing, a plugin has the name of another module, or a plugin
            fails to load; the message names the file or the entry point.
    """
    for folder in _folders():
        _places.add(folder)
        files = sorted(file for file in folder.glob("*.py") if not file.name.startswith("_"))
        if files:
            _join_path(folder)
        for file in files:
            _load_file(file)
    for entry in entry_points(group=GROUP):
        package = f" of package {entry.dist.name}" if entry.dist is not None else ""
        with _naming(f"{entry.name} = {entry.value!r}{package}"):
            entry.load()
        top = sys.modules[entry.module.partition(".")[0]]
        _places.update(Path(place).resolve() for place in getattr(top, "__path__", [top.__file__]))


def folder_of(cls: type[Any]) -> Path | None:
    """Finds the plugin that defines a class, like `place_of_file`."""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return None if file is None else place_of_file(file)


def place_of_file(file: str) -> Path | None:
    """The plugin folder, or the package or file of an entry point, with a file, if any."""
    path, package = Path(file).resolve(), Path(__file__).resolve().parents[1]
    inside = (place for place in sorted(_places) if path.is_relative_to(place))
    place = next(inside, None)
    if place is None or path.is_relative_to(package):
        return None
    return None if "site-packages" in path.relative_to(place).parts else place


def _folders() -> list[Path]:
    named = list[Path]()
    for part in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        if not Path(part).is_dir():
            raise FairbanditError(f"{VARIABLE} names {part!r}, which is not a folder")
        named.append(Path(part).resolve())
    if named:  # a job may run in another working directory
        os.environ[VARIABLE] = os.pathsep.join(map(str, named))
    checkout = Path(__file__).resolve().parents[2]
    present = (checkout / "conf").is_dir() and (checkout / "plugins").is_dir()
    return [checkout / "plugins", *named] if present else named


def _join_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    inherited = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    if str(folder) not in inherited:
        os.environ["PYTHONPATH"] = os.pathsep.join([*inherited, str(folder)])


def _load_file(file: Path) -> None:
    importlib.invalidate_caches()  # the file may be newer than the import system's listing
    with _naming(str(file)):
        module = importlib.import_module(file.stem)
    imported = getattr(module, "__file__", None) or "a module without a file"
    if Path(imported).resolve() != file.resolve():
        raise FairbanditError(
            f"plugin {file} cannot be called {file.stem!r}: that is the name of another module, "
            f"{imported}; rename the file"
        )


@contextmanager
def _naming(plugin: str) -> Iterator[None]:
    try:
        yield
    except (Exception, SystemExit) as error:
        text = " ".join(str(error).split())
        if not isinstance(error, FairbanditError):
            text = f"{type(error).__name__}: {text}"
        raise FairbanditError(f"plugin {plugin} does not load: {text}") from error

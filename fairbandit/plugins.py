"""Plugins: modules that register parts of their own, from folders and from entry points."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

from fairbandit.errors import FairbanditError

VARIABLE = "FAIRBANDIT_PLUGINS"
"""The environment variable that names further folders, separated as in PATH."""

GROUP = "fairbandit.plugins"
"""The group of entry points by which an installed package offers its parts."""


def load_plugins() -> None:
    """Imports every plugin, so that its parts are registered; doing it twice changes nothing.

    Plugins are the *.py files, but for those that begin with an underscore, of the checkout's
    `plugins/` and of the folders named in `FAIRBANDIT_PLUGINS`, and the entry points of group
    `fairbandit.plugins`. The working directory counts for nothing. Folders join `sys.path` and
    `PYTHONPATH`, so that worker processes find the same modules under the same names.

    Raises:
        FairbanditError: a folder that is not there, a plugin whose name another module has, or
            one that fails to load; the message names the file.
    """
    for folder in list(_folders()):
        files = sorted(file for file in folder.glob("*.py") if not file.name.startswith("_"))
        if files:
            _join_path(folder)
        for file in files:
            _load_file(file)
    for entry in entry_points(group=GROUP):
        _load_entry(entry)


def _folders() -> Iterator[Path]:
    checkout = Path(__file__).resolve().parents[1]
    if (checkout / "conf").is_dir() and (checkout / "plugins").is_dir():
        yield checkout / "plugins"
    named = [part for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part]
    for part in named:
        folder = Path(part).resolve()
        if not folder.is_dir():
            raise FairbanditError(f"{VARIABLE} names {part!r}, which is not a folder")
        yield folder
    if named:  # a job may run in another working directory
        os.environ[VARIABLE] = os.pathsep.join(str(Path(part).resolve()) for part in named)


def _join_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    inherited = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    if str(folder) not in inherited:
        os.environ["PYTHONPATH"] = os.pathsep.join([*inherited, str(folder)])


def _load_file(file: Path) -> None:
    importlib.invalidate_caches()  # the file may be younger than the last look at its folder
    taken = _importable(file.stem)
    if taken is not None and taken != str(file.resolve()):
        raise FairbanditError(
            f"plugin {file} cannot be called {file.stem!r}: that is the name of another module, "
            f"{taken}; rename the file"
        )
    try:
        importlib.import_module(file.stem)
    except (Exception, SystemExit) as error:
        raise FairbanditError(f"plugin {file} does not load: {_reason(error)}") from error


def _load_entry(entry: EntryPoint) -> None:
    try:
        entry.load()
    except (Exception, SystemExit) as error:
        package = f" of package {entry.dist.name}" if entry.dist is not None else ""
        file = _importable(entry.module) or "no file"
        raise FairbanditError(
            f"plugin {entry.name} = {entry.value!r}{package} ({file}) does not load: "
            f"{_reason(error)}"
        ) from error


def _importable(module: str) -> str | None:
    """The file that an import of a module finds, or what it is if it has none."""
    try:
        spec = find_spec(module)
    except (ImportError, ValueError, AttributeError):  # in a parent package, or `__main__`
        return None
    if spec is None:
        return None
    if spec.has_location and spec.origin is not None:
        return str(Path(spec.origin).resolve())
    return spec.origin or "a package without a file"


def _reason(error: BaseException) -> str:
    """An error in one line; a message of ours needs no type."""
    text = " ".join(str(error).split())
    if isinstance(error, FairbanditError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__

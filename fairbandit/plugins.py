"""Loads plugins, modules in folders or behind entry points that register parts.

Modules of plugins are compiled from their source in every process, and the source is kept for the
identity of runs. Python's cache of compiled modules would run the older one of two versions of the
same size that are saved within a second.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from fairbandit.errors import FairbanditError

VARIABLE = "FAIRBANDIT_PLUGINS"
"""The environment variable that names further folders, separated as in PATH."""

GROUP = "fairbandit.plugins"
"""The group of entry points that installed packages use to register parts."""

_places: set[Path] = set()  # the plugin folders
_packages: set[str] = set()  # the packages of entry points, and modules without a package
_sources: dict[str, bytes] = {}  # what this process runs, by module
_INSTALLED = {"site-packages", "dist-packages"}


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
    _join_finders()
    for folder in list(_folders()):
        _places.add(folder)
        files = sorted(file for file in folder.glob("*.py") if not file.name.startswith("_"))
        if files:
            _join_path(folder)
        for file in files:
            _load_file(file)
    for entry in entry_points(group=GROUP):
        _packages.add(entry.module.partition(".")[0])
        _load_entry(entry)


def is_plugin(module: str, file: str | None) -> bool:
    """Whether a module of a full name lies in a plugin folder, or in an entry point's package."""
    package = module.partition(".")[0]
    if file is None or package == __name__.partition(".")[0]:
        return False
    if package in _packages:
        return True
    path = Path(file)
    path = path.resolve() if path.is_symlink() else _resolved(path.parent.absolute()) / path.name
    inside = (path.relative_to(folder) for folder in _places if path.is_relative_to(folder))
    return any(not _INSTALLED & {*relative.parts} for relative in inside)


def folder_of(cls: type[Any]) -> Path | None:
    """Returns the plugin folder, or the package of an entry point, that a class comes from."""
    module = sys.modules.get(cls.__module__)
    file = getattr(module, "__file__", None)
    if not is_plugin(cls.__module__, file):
        return None
    assert file is not None
    path = Path(file).resolve()
    for place in _places:
        if path.is_relative_to(place):
            return place
    top = sys.modules[cls.__module__.partition(".")[0]]
    return Path(str(top.__file__)).parent if hasattr(top, "__path__") else Path(str(top.__file__))


@lru_cache(maxsize=1024)
def _resolved(folder: Path) -> Path:
    """The folder without symbolic links; thousands of modules lie in some hundred folders."""
    return folder.resolve()


def source(module: str, file: str) -> bytes:
    """The source of a module of a full name as this process runs it, or would run it.

    Raises:
        OSError: the module is not loaded, and its file cannot be read.
    """
    known = _sources.get(module) if module in sys.modules else None
    return Path(file).read_bytes() if known is None else known


def modules() -> Iterator[tuple[str, str]]:
    """The name and the file of every module of plugins, loaded or not."""
    roots = [(folder, folder) for folder in sorted(_places)]
    for package in sorted(_packages):
        spec = find_spec(package)
        if spec is not None and spec.submodule_search_locations is None and spec.origin:
            yield package, spec.origin
        places = map(Path, (spec and spec.submodule_search_locations) or ())
        roots += [(place, place.parent) for place in places]
    for root, base in roots:
        for file in sorted(root.rglob("*.py")):
            name = ".".join(file.relative_to(base).with_suffix("").parts).removesuffix(".__init__")
            if is_plugin(name, str(file)):
                yield name, str(file)


class _Loader(SourceFileLoader):
    """Compiles a module from its source without Python's cache, and keeps the source."""

    def path_stats(self, path: str) -> dict[str, float]:
        """Raises an error, which tells Python not to use its cache."""
        raise OSError(f"{path} is compiled in every process")

    def source_to_code(  # type: ignore[override]
        self, data: Any, path: Any, **options: Any
    ) -> Any:
        """Compiles the source, and keeps it."""
        _sources[self.name] = bytes(data)
        return super().source_to_code(data, path, **options)


class _Finder(MetaPathFinder):
    """Python's finder of files, with `_Loader` for the modules of plugins."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A module's spec, or None if it is in no file."""
        spec = PathFinder.find_spec(fullname, path, target)
        own = spec is not None and isinstance(spec.loader, SourceFileLoader)
        if spec is not None and own and is_plugin(fullname, spec.origin):
            assert spec.origin is not None
            spec.loader, spec.cached = _Loader(fullname, spec.origin), None
        return spec


def _join_finders() -> None:
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        at = sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else len(sys.meta_path)
        sys.meta_path.insert(at, _Finder())


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
    _load(partial(importlib.import_module, file.stem), lambda: f"{file}")


def _load_entry(entry: EntryPoint) -> None:
    package = f" of package {entry.dist.name}" if entry.dist is not None else ""
    told = f"{entry.name} = {entry.value!r}{package}"
    _load(entry.load, lambda: f"{told} ({_importable(entry.module) or 'no file'})")


def _load(load: Callable[[], object], told: Callable[[], str]) -> None:
    """Loads a plugin; an error tells which one it is, unless the user has interrupted it."""
    try:
        load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        text = " ".join(str(error).split())
        if not isinstance(error, FairbanditError):
            text = f"{type(error).__name__}: {text}".removesuffix(": ")
        raise FairbanditError(f"plugin {told()} does not load: {text}") from error


def _importable(module: str) -> str | None:
    """The file that an import of a module finds, or a description of a module without a file."""
    try:
        spec = find_spec(module)
    except (ImportError, ValueError, AttributeError):  # in a parent package, or `__main__`
        return None
    if spec is None:
        return None
    if spec.has_location and spec.origin is not None:
        return str(Path(spec.origin).resolve())
    return spec.origin or "a package without a file"

"""Plugins that are edited between two commands, and processes that begin anew."""

from __future__ import annotations

import linecache
import os
import sys
from pathlib import Path

from fairbandit.registry import _registry

RANK = """
from fairbandit import register
from fairbandit.ranks import EmpiricalCdf
{imports}

@register("rank", "{name}")
class Mine(EmpiricalCdf):
    '''Mine.'''
    def _index(self, scored):
        return 1 - {factor} * super()._index(scored)
"""


def rank(folder: Path, name: str, imports: str = "", factor: str = "1.0") -> Path:
    """Writes a rank, `name`, as the plugin rank_NAME.py."""
    file = folder / f"rank_{name}.py"
    file.write_text(RANK.format(name=name, imports=imports, factor=factor))
    return file


def edit(file: Path, old: str, new: str) -> None:
    """Changes a file some seconds later, by which Python knows its compiled module as outdated."""
    text, time = file.read_text(), file.stat().st_mtime + 2
    assert old in text
    file.write_text(text.replace(old, new))
    os.utime(file, (time, time))


def forget(folder: Path) -> None:
    """Forgets the modules of a folder, and their parts, as if the process were new."""
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(folder)):
            del sys.modules[name]
            for classes in _registry.values():
                for part, cls in list(classes.items()):
                    if cls.__module__ == name:
                        del classes[part]
    linecache.clearcache()

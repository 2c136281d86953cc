"""The guides of `plugins/`, as a reader uses them: the files that they show and their commands."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from tests import support

FOLDER = support.REPOSITORY / "plugins"


@dataclass(frozen=True)
class Guide:
    """One guide.

    Attributes:
        path: where it is.
    """

    path: Path

    @property
    def name(self) -> str:
        """What the guide is about."""
        return "rank" if self.path.stem == "README" else self.path.stem

    @property
    def text(self) -> str:
        """The whole guide."""
        return self.path.read_text(encoding="utf-8")

    @property
    def blocks(self) -> list[tuple[str, str, str]]:
        """Every block: its language, the file that it shows, if any, and its text."""
        return re.findall(r"^```(\w+)(?: (\S+))?\n(.*?)^```", self.text, re.DOTALL | re.MULTILINE)

    @property
    def commands(self) -> list[list[str]]:
        """Every command, in order, in words."""
        shown = [text for kind, _, text in self.blocks if kind == "console"]
        return [shlex.split(line) for text in shown for line in text.splitlines() if line]

    @property
    def files(self) -> dict[str, str]:
        """The files that the guide shows."""
        return {name: text for _, name, text in self.blocks if name}

    @property
    def parts(self) -> list[tuple[str, str]]:
        """The kind and the name of every part that the guide registers."""
        return re.findall(r'^@register\("(.+)", "(.+)"\)$', self.text, re.MULTILINE)

    @property
    def links(self) -> list[tuple[str, str]]:
        """The file and the heading, if any, where each of its links to other files leads."""
        return re.findall(r"\]\(([^)#]+\.md)(?:#([^)]*))?\)", self.text)

    def write(self, folder: Path) -> Path:
        """Writes every file that the guide shows; returns the folder of its plugins."""
        for name, text in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        return folder / "my_plugins"


RANK = Guide(FOLDER / "README.md")
GUIDES = [RANK, *map(Guide, sorted((FOLDER / "guides").glob("*.md")))]

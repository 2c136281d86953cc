"""The pages of the documentation: what they show, what they tell to type, what it prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

from tests import support

DOCS = support.REPOSITORY / "docs"


class Block(NamedTuple):
    """A fenced block, with its language and the file that it shows, empty if there is none."""

    language: str
    file: str
    text: str

    @property
    def commands(self) -> list[list[str]]:
        """The commands of a console block, in words."""
        if self.language != "console":
            return []
        return [shlex.split(line) for line in self.text.splitlines() if line]


class Page:
    """A Markdown file, with its blocks, its commands in words, and the files that it shows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.stem
        self.place = str(path.relative_to(support.REPOSITORY))
        self.text = path.read_text(encoding="utf-8")
        fences = r'^```(\w*)(?: title="([^"\n]+)")?\n(.*?)^```$'
        found = re.findall(fences, self.text, re.DOTALL | re.MULTILINE)
        self.blocks = [Block(*each) for each in found]
        self.commands = [words for block in self.blocks for words in block.commands]
        self.files = {block.file: block.text for block in self.blocks if block.file}
        # the kind and the name of every part that the page registers
        self.parts = re.findall(r'^@register\("(.+)", "(.+)"\)$', self.text, re.MULTILINE)

    def write(self, folder: Path) -> Path:
        """Writes every file that the page shows; returns the folder of its plugins."""
        for name, text in self.files.items():
            write(folder / name, text)
        return folder / "my_plugins"


def write(file: Path, text: str) -> None:
    """Writes a file, and its folder if there is none."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


GUIDES = [Page(file) for file in sorted((DOCS / "parts").glob("*.md")) if file.stem != "index"]

RANK = next(guide for guide in GUIDES if guide.name == "rank")

TUTORIALS = [Page(file) for file in sorted((DOCS / "tutorials").glob("*.md"))]

README = Page(support.REPOSITORY / "README.md")

PAGES = [
    *(Page(file) for file in sorted(DOCS.glob("*.md"))),
    Page(DOCS / "parts" / "index.md"),
    Page(DOCS / "reference" / "counting.md"),
]
"""The pages of the site whose blocks are run in short: not the guides, nor the tutorials."""

EVERY = [
    *(Page(file) for file in sorted(support.REPOSITORY.glob("*.md"))),
    Page(support.REPOSITORY / "plugins" / "README.md"),
    *(Page(file) for file in sorted(DOCS.rglob("*.md"))),
]
"""Every page that a reader of the repository finds."""

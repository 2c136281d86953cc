"""The pages of the documentation, as a reader uses them: what they show and what they tell to type.

A page may show files (blocks with a title), commands (console) and snippets (Python). The guides
are the pages that write parts, each in a folder of its own.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests import support

DOCS = support.REPOSITORY / "docs"


class Block(NamedTuple):
    """A fenced block.

    Attributes:
        language: of its text; empty for what is no code.
        file: the file that it shows; empty if it shows none.
        text: its contents.
    """

    language: str
    file: str
    text: str

    @property
    def commands(self) -> list[list[str]]:
        """The commands of a console block, in words."""
        if self.language != "console":
            return []
        return [shlex.split(line) for line in self.text.splitlines() if line]


@dataclass(frozen=True)
class Page:
    """One page.

    Attributes:
        path: where it is.
    """

    path: Path

    @property
    def name(self) -> str:
        """What the page is about."""
        return self.path.stem

    @property
    def place(self) -> str:
        """Where the page is in the repository."""
        return str(self.path.relative_to(support.REPOSITORY))

    @property
    def text(self) -> str:
        """The whole page."""
        return self.path.read_text(encoding="utf-8")

    @property
    def blocks(self) -> list[Block]:
        """Every block, in order."""
        fences = r'^```(\w*)(?: title="([^"\n]+)")?\n(.*?)^```$'
        return [Block(*found) for found in re.findall(fences, self.text, re.DOTALL | re.MULTILINE)]

    @property
    def commands(self) -> list[list[str]]:
        """Every command, in order, in words."""
        return [words for block in self.blocks for words in block.commands]

    @property
    def files(self) -> dict[str, str]:
        """The files that the page shows."""
        return {block.file: block.text for block in self.blocks if block.file}

    @property
    def parts(self) -> list[tuple[str, str]]:
        """The kind and the name of every part that the page registers."""
        return re.findall(r'^@register\("(.+)", "(.+)"\)$', self.text, re.MULTILINE)

    @property
    def links(self) -> list[tuple[str, str]]:
        """The file, if another, and the heading, if any, where each link to a page leads."""
        return re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)", self.text)

    @property
    def anchors(self) -> set[str]:
        """What links to its headings end with."""
        prose = re.sub(r"^```.*?^```$", "", self.text, flags=re.DOTALL | re.MULTILINE)
        headings = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
        return {re.sub(r"[^\w-]", "", line.lower().replace(" ", "-")) for line in headings}

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

README = Page(support.REPOSITORY / "README.md")

PAGES = [Page(file) for file in (*sorted(DOCS.glob("*.md")), DOCS / "parts" / "index.md")]
"""The pages of the site that are neither guides nor the reference."""

EVERY = [
    *(Page(file) for file in sorted(support.REPOSITORY.glob("*.md"))),
    Page(support.REPOSITORY / "plugins" / "README.md"),
    *(Page(file) for file in sorted(DOCS.rglob("*.md"))),
]
"""Every page that a reader of the repository finds."""

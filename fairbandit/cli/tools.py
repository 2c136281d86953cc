"""Tools: what `fairbandit` does beside running, chosen by a first word without `=`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fairbandit.errors import FairbanditError


@dataclass(frozen=True)
class Tool:
    """A tool over saved results or parts.

    Attributes:
        help: what it does, in one line.
        run: takes the words after the tool's name; it imports what it needs when called.
    """

    help: str
    run: Callable[[Sequence[str]], None]


TOOLS: dict[str, Tool] = {}
"""The tools by name."""


def names_tool(word: str) -> bool:
    """Whether a first word asks for a tool, rather than overriding a config or being a flag."""
    return "=" not in word and not word.startswith(("-", "/", "+", "~"))


def run_tool(name: str, words: Sequence[str]) -> None:
    """Runs a tool.

    Raises:
        FairbanditError: no such tool.
    """
    if name not in TOOLS:
        have = f"the tools are {', '.join(TOOLS)}" if TOOLS else "there are no tools"
        raise FairbanditError(
            f"unknown tool {name!r}; {have}, and a run is described by key=value pairs "
            "(see fairbandit --help)"
        )
    TOOLS[name].run(words)

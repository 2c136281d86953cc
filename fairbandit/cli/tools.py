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


def _collect(words: Sequence[str]) -> None:
    from fairbandit.cli.collect import collect

    collect(words)


def _check(words: Sequence[str]) -> None:
    from fairbandit.cli.check import check

    check(words)


def _theory(words: Sequence[str]) -> None:
    from fairbandit.cli.theory import theory

    theory(words)


def _parity(words: Sequence[str]) -> None:
    from fairbandit.cli.parity import parity

    parity(words)


def _figures(words: Sequence[str]) -> None:
    from fairbandit.cli.figures import figures

    figures(words)


def _dashboard(words: Sequence[str]) -> None:
    from fairbandit.cli.dashboard import dashboard

    dashboard(words)


TOOLS: dict[str, Tool] = {
    "collect": Tool("gathers the summaries of many runs into one table", _collect),
    "check": Tool("runs the conformance suite on a part, such as rank=my_rank", _check),
    "figures": Tool("draws the figures of saved runs, as PNG and PDF", _figures),
    "dashboard": Tool("starts TensorBoard on saved runs, on this machine alone", _dashboard),
    "theory": Tool("computes what the paper proves, for an environment", _theory),
    "parity": Tool("tests saved runs for demographic parity, round by round", _parity),
}
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

"""Tools: what `fairbandit` does beside running, chosen by a first word without `=`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from fairbandit.errors import FairbanditError


@dataclass(frozen=True)
class Tool:
    """A tool over saved results or parts.

    Attributes:
        help: what it does, in one line.
        run: takes the words after the tool's name.
    """

    help: str
    run: Callable[[Sequence[str]], None]


def _run(name: str, words: Sequence[str]) -> None:
    """Runs one of the package's own tools, whose module is imported only now."""
    match name:
        case "collect":
            from fairbandit.cli.collect import collect as run
        case "check":
            from fairbandit.cli.check import check as run
        case "figures":
            from fairbandit.cli.figures import figures as run
        case "dashboard":
            from fairbandit.cli.dashboard import dashboard as run
        case "theory":
            from fairbandit.cli.theory import theory as run
        case "parity":
            from fairbandit.cli.parity import parity as run
    run(words)


_HELP = {
    "collect": "gathers the summaries of many runs into one table",
    "check": "runs the conformance suite on a part, such as rank=my_rank",
    "figures": "draws the figures of saved runs, as PNG and PDF",
    "dashboard": "starts TensorBoard on saved runs, on this machine alone",
    "theory": "computes what the paper proves, for an environment",
    "parity": "tests saved runs for demographic parity, round by round",
}

TOOLS = {name: Tool(text, partial(_run, name)) for name, text in _HELP.items()}
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

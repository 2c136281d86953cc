"""The tools of the command, which the first word names if it is neither override nor flag."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from fairbandit.errors import FairbanditError

TOOLS = {
    "collect": "gathers the summaries of many runs into one table",
    "check": "runs the conformance suite on a part, such as rank=my_rank",
    "figures": "draws the figures of saved runs, as PNG and PDF",
    "dashboard": "starts TensorBoard on saved runs, on this machine alone",
    "tune": "searches for good hyperparameters with Optuna",
    "table": "shows what environment=table makes of a file: features, missing cells, groups",
    "theory": "computes what the paper proves, for an environment",
    "parity": "tests saved runs for demographic parity, round by round",
}
"""The tools with a line for `fairbandit --help`; each is a function in a module of its name."""


def names_tool(word: str) -> bool:
    """Whether a first word names a tool, rather than an override or a flag."""
    return "=" not in word and not word.startswith(("-", "/", "+", "~"))


def run_tool(name: str, words: Sequence[str]) -> None:
    """Runs a tool, whose module is imported only now.

    Raises:
        FairbanditError: no such tool.
    """
    if name not in TOOLS:
        raise FairbanditError(
            f"unknown tool {name!r}; the tools are {', '.join(TOOLS)}, and a run is described by "
            "key=value pairs (see fairbandit --help)"
        )
    getattr(import_module(f"fairbandit.cli.{name}"), name)(words)

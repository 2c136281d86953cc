"""`fairbandit replay`: plays a decision log again and confirms every line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fairbandit.agent.replaying import replay as replayed
from fairbandit.cli.parsers import tool_parser
from fairbandit.run.table import console, named

_HELP = """\
Plays the log of an agent again from its first line, and says whether every decision, probability
and hash is as written. Prints the last hash: keep it elsewhere, and whoever has it can check later
that the log was not changed. Names the first line that differs."""

_EXAMPLES = """\
examples:
  fairbandit replay decisions.jsonl
  fairbandit replay decisions.jsonl --agent agent.pt   # the file that the agent was loaded from"""


def replay(words: Sequence[str]) -> None:
    """Confirms a log, or raises an error that names the first line that differs."""
    parser = tool_parser("replay", _HELP, _EXAMPLES)
    parser.add_argument("log", type=Path, metavar="LOG", help="a file that an agent wrote")
    parser.add_argument("--agent", type=Path, metavar="FILE", help="what the agent began from")
    given = parser.parse_args(words)
    receipt = replayed(given.log, given.agent)
    out = console()
    out.print(
        f"{receipt.lines:,} lines are as written: {receipt.decisions:,} decisions and "
        f"{receipt.rewards:,} rewards were played again"
    )
    out.print(named("last hash", receipt.sha256))

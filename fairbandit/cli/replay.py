"""`fairbandit replay`: plays a decision log again and confirms every line."""

from __future__ import annotations

from collections.abc import Sequence

from fairbandit.agent.replaying import replay as replayed
from fairbandit.cli.parsers import read_words
from fairbandit.runs.sheets import console, named

_HELP = """\
Replays the log of an agent from its first line, and compares every decision, probability and hash
with the log. Names the first line that differs, if any. Prints the last hash: store it elsewhere,
so that others can check later that the log was not changed.

examples:
  fairbandit replay decisions.jsonl
  fairbandit replay decisions.jsonl agent=agent.pt   # if the agent was loaded from this file"""


def replay(words: Sequence[str]) -> None:
    """Replays a log; raises an error that names the first line that differs."""
    given = read_words("replay", _HELP, words, "LOG")
    receipt = replayed(given.paths[0], **given.only(["agent"]))
    out = console()
    out.print(
        f"{receipt.lines:,} lines are as written: {receipt.decisions:,} decisions and "
        f"{receipt.rewards:,} rewards were played again"
    )
    out.print(named("last hash", receipt.sha256))

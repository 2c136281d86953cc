"""`fairbandit erase`: copies the log of an agent without some decisions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fairbandit.cli.parsers import read_words
from fairbandit.errors import FairbanditError
from fairbandit.logs import erase as erased
from fairbandit.runs.sheets import console, named

_HELP = """\
Copies the log of an agent without the decisions of some tickets to the file out=COPY, which is
replaced. The copy has new hashes, and the number of erased decisions and the last hash of the old
log are in its first line. It serves evaluations and audits, but cannot be replayed.

example:
  fairbandit erase decisions.jsonl 'tickets=[3,4]' out=erased.jsonl"""


def erase(words: Sequence[str]) -> None:
    """Copies a log without some decisions, and says how many are left out."""
    given = read_words("erase", _HELP, words, "LOG")
    settings = given.only(["tickets", "out"])
    tickets = settings.get("tickets")
    tickets = tickets if isinstance(tickets, list) else [tickets]
    if "out" not in settings or not all(type(ticket) is int for ticket in tickets):
        raise FairbanditError("erase: expected tickets=[3,4] and out=COPY")
    copy, out = Path(settings["out"]), console()
    out.print(f"{erased(given.paths[0], copy, tickets):,} decisions are left out")
    out.print(named("written", copy), soft_wrap=True)

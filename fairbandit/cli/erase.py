"""`fairbandit erase`: copies the log of an agent without some decisions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fairbandit.cli.parsers import tool_parser
from fairbandit.logs import erase as erased
from fairbandit.runs.sheets import console, named

_HELP = """\
Copies the log of an agent without the decisions of some tickets. The copy has new hashes, and the
number of erased decisions and the last hash of the old log are in its first line. It serves
evaluations and audits, but cannot be replayed. A file of the name COPY is replaced."""

_EXAMPLES = """\
example:
  fairbandit erase decisions.jsonl erased.jsonl 3 4"""


def erase(words: Sequence[str]) -> None:
    """Copies a log without some decisions, and says how many are left out."""
    parser = tool_parser("erase", _HELP, _EXAMPLES)
    parser.add_argument("log", type=Path, metavar="LOG", help="a file that an agent wrote")
    parser.add_argument("copy", type=Path, metavar="COPY", help="the file to write")
    text = "the tickets of the decisions"
    parser.add_argument("tickets", type=int, nargs="+", metavar="TICKET", help=text)
    given = parser.parse_args(words)
    count, out = erased(given.log, given.copy, given.tickets), console()
    out.print(f"{count:,} decisions are left out")
    out.print(named("written", given.copy), soft_wrap=True)

"""`fairbandit explain`: explains a decision in the log of an agent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fairbandit.agent.replaying import explain as explained
from fairbandit.cli.parsers import tool_parser

_HELP = """\
Explains a logged decision: replays the log of an agent up to it, and prints the score, the index
and the probability of each candidate, and who was picked."""

_EXAMPLES = """\
examples:
  fairbandit explain decisions.jsonl 150
  fairbandit explain hires.jsonl 3 --candidate 2       # the third candidate of an opening"""


def explain(words: Sequence[str]) -> None:
    """Prints the explanation of a decision."""
    parser = tool_parser("explain", _HELP, _EXAMPLES)
    parser.add_argument("log", type=Path, metavar="LOG", help="a file that an agent wrote")
    parser.add_argument("ticket", type=int, metavar="TICKET", help="the ticket of the decision")
    text = "the agent's file before LOG, and files that a worker took up later"
    parser.add_argument("--agent", type=Path, nargs="+", metavar="FILE", help=text)
    text = "of an opening, the number of the candidate, from 0 [0]"
    parser.add_argument("--candidate", type=int, default=0, metavar="N", help=text)
    given = parser.parse_args(words)
    print(explained(given.log, given.ticket, given.agent, candidate=given.candidate))

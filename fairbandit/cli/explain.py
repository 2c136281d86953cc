"""`fairbandit explain`: explains a decision in the log of an agent."""

from __future__ import annotations

from collections.abc import Sequence

from fairbandit.agent.replaying import explain as explained
from fairbandit.cli.parsers import read_words
from fairbandit.errors import FairbanditError

_HELP = """\
Explains a logged decision: replays the log of an agent up to it, and prints the score, the index
and the probability of each candidate, and who was picked.

  ticket=N       the ticket of the decision
  candidate=N    of an opening, the number of the candidate, from 0 [0]
  agent=FILE     the agent's file before the log, if the agent was loaded from it

examples:
  fairbandit explain decisions.jsonl ticket=150
  fairbandit explain hires.jsonl ticket=3 candidate=2       # the third candidate of an opening"""


def explain(words: Sequence[str]) -> None:
    """Prints the explanation of a decision."""
    given = read_words("explain", _HELP, words, "LOG")
    settings = given.only(["ticket", "candidate", "agent"])
    if type(settings.get("ticket")) is not int:
        raise FairbanditError("explain: expected ticket=N, the ticket of a decision")
    print(explained(given.paths[0], **settings))

"""`fairbandit report`: one page of HTML on runs, a log or a table of people."""

from __future__ import annotations

from collections.abc import Sequence

from fairbandit.cli.audit import audit_of
from fairbandit.cli.pages import write
from fairbandit.cli.parsers import read_words
from fairbandit.errors import FairbanditError
from fairbandit.report import of_runs
from fairbandit.runs.folder import SUMMARY, finished_below

_HELP = f"""\
Writes one HTML file to send: the question, tables with the best values marked, pictures, results by
group, how sure they are, assumptions, settings and hashes. It runs no script and loads nothing.

PATH is one of
  a folder with finished runs, at any depth ({SUMMARY})
  a log: a file of an agent, a table, DSJSON, or a folder of such files
  a table with a row for each person, with selected=COLUMN or score=COLUMN

KEY=VALUE are out=FILE [report.html] and, for a log or a table, its columns and the settings of its
audit, as for `fairbandit audit`. `fairbandit evaluate … out=FILE` writes the page of an evaluation.

examples:
  fairbandit report outputs/sweeps/policy_seed
  fairbandit report decisions.jsonl out=decisions.html
  fairbandit report hiring.csv group=sex reward=grade epsilon=0.05"""


def report(words: Sequence[str]) -> None:
    """Writes the report of a path."""
    given = read_words("report", _HELP, words, "PATH")
    (path,), out = given.paths, given.settings.pop("out", "report.html")
    path = path if path.name not in ("", "..") else path.resolve()
    if path.is_dir() and any(finished_below(path)):
        if given.settings:
            wrong = ", ".join(given.settings)
            raise FairbanditError(f"only a log or a table takes further keys, got {wrong}")
        write(of_runs(path), out)
    else:
        write(audit_of(given._replace(paths=[path])), out)

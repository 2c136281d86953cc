"""`fairbandit report`: one page of HTML on runs, an evaluation, an audit or a log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from fairbandit.audit import audit as audited
from fairbandit.audit import audit_table
from fairbandit.cli.logs import given_log, given_table
from fairbandit.cli.messages import short
from fairbandit.cli.parsers import read_parameters, tool_parser
from fairbandit.errors import FairbanditError
from fairbandit.logs.own import is_own
from fairbandit.logs.reading import ENDINGS
from fairbandit.report import Report, of_log, of_runs, read_report
from fairbandit.report.decisions import AUDIT
from fairbandit.report.estimates import EVALUATION
from fairbandit.report.people import FORMS, of_table
from fairbandit.runs.folder import SUMMARY, finished_below
from fairbandit.runs.sheets import Sheet, console, named

_FILES = {EVALUATION: read_report, AUDIT: read_report}
"""The functions that report a file, by its name."""

_KINDS = f"""\
PATH is one of
  a folder with finished runs, at any depth ({SUMMARY})
  the folder --out of `fairbandit evaluate` or `fairbandit audit` ({EVALUATION}, {AUDIT})
  a log: a file of an agent, a table, DSJSON, or a folder of such files
  a table with a row for each person, with selected=COLUMN or score=COLUMN"""

_HELP = f"""\
Writes one HTML file to send: the question, tables with the best values marked, pictures, results by
group, how sure they are, assumptions, settings and hashes. It runs no script and loads nothing.

{_KINDS}

KEY=VALUE are the columns of a log or a table and the settings of its audit, as for `fairbandit
audit`. --form ll144 writes the summary of a table that New York's Local Law 144 asks for, and
prints its tables."""

_EXAMPLES = """\
examples:
  fairbandit report outputs/sweeps/policy_seed
  fairbandit report decisions.jsonl --out decisions.html
  fairbandit report hiring.csv group=sex reward=grade epsilon=0.05
  fairbandit evaluate hiring.csv policy=greedy group=sex reward=grade --out found
  fairbandit report found
  fairbandit report applicants.csv 'group=[sex,race]' selected=hired --form ll144"""


def report(words: Sequence[str]) -> None:
    """Writes the report of a path."""
    parser = tool_parser("report", _HELP, _EXAMPLES)
    parser.add_argument("path", type=Path, metavar="PATH", help="see above")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="of a log or table")
    parser.add_argument("--form", choices=[*FORMS], help="the form of an authority")
    out = "the file, which is replaced [report.html]"
    parser.add_argument("--out", type=Path, metavar="FILE", default=Path("report.html"), help=out)
    given = parser.parse_intermixed_args(words)
    settings = read_parameters(given.settings, "report")
    path = given.path if given.path.name not in ("", "..") else given.path.resolve()
    columns = given_table(path, settings)
    reports = [*_saved(path)] if columns is None else []
    if reports and settings:
        raise FairbanditError(f"only a log or a table takes KEY=VALUE, got {', '.join(settings)}")
    if columns is not None and given.form:
        reports = [FORMS[given.form](audit_table(path, **columns), path, given.settings)]
        for part in reports[0].parts:
            if isinstance(part, Sheet):
                console().print(part)
    elif given.form:
        raise FairbanditError(f"--form {given.form}: expected a table, with selected or score")
    elif columns is not None:
        reports = [of_table(path, given.settings, **columns)]
    elif not reports:
        if not _is_log(path):
            raise FairbanditError(f"{path} holds nothing to report. {_KINDS}")
        log, options = given_log(path, settings, audited)
        reports = [of_log(log, path, given.settings, **options)]
    parts = [part for one in reports for part in one.parts]
    question = " ".join(one.question for one in reports)
    Report(reports[0].title, question, parts).write(given.out)
    console().print(named("written", short(given.out.absolute())), soft_wrap=True)


def _saved(path: Path) -> Iterator[Report]:
    """Yields the reports of what other commands left in a folder, or in one of its files."""
    for name, function in _FILES.items():
        file = path if path.name == name else path / name
        if file.exists():
            yield function(file)
    if path.is_dir() and any(finished_below(path)):
        yield of_runs(path)


def _is_log(path: Path) -> bool:
    names = [file.name for file in path.iterdir()] if path.is_dir() else [path.name]
    known = any(name.lower().endswith(ENDINGS) for name in names)
    return known or (not path.is_dir() and is_own(path))

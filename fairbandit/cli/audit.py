"""`fairbandit audit`: how groups were treated, in logged decisions and in saved runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from fairbandit.audit import audit as audited
from fairbandit.audit.applicants_page import report_table
from fairbandit.audit.planning import plan
from fairbandit.audit.report import report, report_log
from fairbandit.cli.logs import given_log, given_table, keywords
from fairbandit.cli.messages import short
from fairbandit.cli.parsers import folder_to_write, read_parameters, tool_parser
from fairbandit.errors import FairbanditError, unknown
from fairbandit.report.decisions import AUDIT, of_log_audit
from fairbandit.report.page import Report
from fairbandit.report.people import of_table_audit
from fairbandit.report.runs import group_line
from fairbandit.runs import read_scenes
from fairbandit.runs.folder import finished_below
from fairbandit.runs.sheets import Sheet, console, make_table, named

_HELP = """\
Reports and tests the selection rates of groups. The tests are valid at any sample size, and
however often the audit is repeated as data arrive.

For a log, KEY=VALUE sets its columns, as for `fairbandit evaluate`, with score, and also epsilon,
order, confidence (0.95 by default) and seed. The audit tests for drift of groups and, given
epsilon, for parity of selection; with order=true, that candidates who come one at a time come in
any order. For folders of runs, it tests for parity in every round if each group has its own place,
which takes many replicas; otherwise over all rounds, if the policy does not read the past. The only
key is confidence, by default 0.999 for each run, since many runs are tested together.

A table with a row for each person, such as applicants, needs no rewards: group, selected or score,
decision, unknown and confidence are the keys, as for `fairbandit.audit.audit_table`. The audit
reports rates, impact ratios, the four-fifths rule and Fisher's exact test."""

_EXAMPLES = """\
examples:
  fairbandit audit hiring.csv 'group=[sex,race]' score=grade epsilon=0.05 --out report
  fairbandit audit outputs/one outputs/other confidence=0.99
  fairbandit audit --plan epsilon=0.05
  fairbandit audit applicants.csv 'group=[sex,race]' selected=hired decision=requisition
  fairbandit audit applicants.csv group=sex 'selected={status: [Hired, Offer]}' unknown=[n/a]"""


def audit(words: Sequence[str]) -> None:
    """Prints an audit of a log or of runs, and writes its files."""
    parser = tool_parser("audit", _HELP, _EXAMPLES)
    about = "how many decisions are needed to see a gap: epsilon=… [share= confidence= seed=]"
    parser.add_argument("--plan", action="store_true", help=about)
    parser.add_argument("words", nargs="*", metavar="PATH|KEY=VALUE", help="a log, or run folders")
    out = "where the files go (default: the first folder of runs, or audit)"
    parser.add_argument("--out", type=folder_to_write, metavar="FOLDER", help=out)
    given = parser.parse_intermixed_args(words)
    settings = [word for word in given.words if "=" in word and not Path(word).exists()]
    paths = [Path(word) for word in given.words if word not in settings]
    options = read_parameters(settings, "audit")
    if given.plan:
        _plan(paths, options)
        return
    if paths and all(path.is_dir() and any(finished_below(path)) for path in paths):
        for wrong in options.keys() - {"confidence"}:
            raise unknown("key for runs", wrong, ["confidence"])
        page, written = report(paths, given.out, **options)
        names = ", ".join(path.absolute().name for path in paths)
        lines = [f"{scene.name}: {group_line(scene)}" for scene in read_scenes(paths)]
        question = f"How did runs in {names} treat the groups?"
        whole = Report.of("Audit of runs", question, [*page[1:], *lines])
    elif len(paths) == 1 and (columns := given_table(paths[0], options)) is not None:
        page, written = report_table(paths[0], given.out or Path("audit"), **columns)
        whole = of_table_audit(page, paths[0], settings)
    elif len(paths) == 1:
        log, options = given_log(paths[0], options, audited)
        page, written = report_log(log, given.out or Path("audit"), paths[0], **options)
        whole = of_log_audit(page, log, paths[0], settings, options.get("confidence", 0.95))
    else:
        kinds = "one log, one table, or folders that each hold a finished run"
        raise FairbanditError(f"audit: expected {kinds}")
    written.append(whole.save(written[0].with_name(AUDIT)))
    screen = console()
    for part in page:
        if isinstance(part, Sheet):
            screen.print(part, end="\n\n")
        elif isinstance(part, str):
            text = Text(part.replace("\n", " "))  # rich wraps it at the width of the screen
            screen.print(text, end="\n\n", width=min(screen.width, 100))
    for path in written:
        screen.print(named("written", short(path.absolute())), soft_wrap=True)


def _plan(paths: Sequence[Path], options: dict[str, Any]) -> None:
    """Prints how many decisions are needed to see a gap."""
    valid = keywords(plan)
    for wrong in options.keys() - {*valid}:
        raise unknown("key for --plan", wrong, valid)
    if paths or "epsilon" not in options:
        raise FairbanditError(f"audit --plan takes {', '.join(valid)} alone, epsilon at least")
    table = plan(**options)
    rows = [
        (f"{row.power:g}", f"{row.decisions:,}", f"{row.checked:.1%}") for row in table.itertuples()
    ]
    heads = ["power", "decisions", "seen in fresh simulated logs"]
    console().print(make_table(heads, rows, right=heads))

"""`fairbandit audit`: how groups were treated, in logged decisions and in tables of people."""

from __future__ import annotations

from collections.abc import Sequence

from fairbandit.audit import audit as audited
from fairbandit.audit import audit_table, plan
from fairbandit.cli.logs import given_log, given_table, keywords
from fairbandit.cli.pages import show, write
from fairbandit.cli.parsers import Words, read_words
from fairbandit.errors import FairbanditError, check_known
from fairbandit.report import Report, local_law_144, of_log, of_table
from fairbandit.runs.sheets import console, make_table

_HELP = """\
Reports and tests the selection rates of groups. The tests are valid at any sample size, and
however often the audit is repeated as data arrive.

For a log, KEY=VALUE sets its columns, as for `fairbandit evaluate`, with score, and also epsilon,
order, confidence (0.95 by default) and seed. The audit tests for drift of groups and, given
epsilon, for parity of selection; with order=true, that candidates who come one at a time come in
any order.

A table with a row for each person, such as applicants, needs no rewards: group, selected or score,
decision, unknown and confidence are the keys, as for `fairbandit.audit.audit_table`. The audit
reports rates, impact ratios, the four-fifths rule and Fisher's exact test. form=ll144 gives the
summary that New York's Local Law 144 asks for.

out=FILE writes one page of HTML to send (.html), or the table (.csv, .parquet); out=[FILE,FILE]
writes both.

`fairbandit audit --plan epsilon=E` prints how many decisions are needed to see a gap E between a
group's share of the candidates and of the picks; share, confidence and seed are its other keys.

examples:
  fairbandit audit hiring.csv 'group=[sex,race]' score=grade epsilon=0.05 out=audit.html
  fairbandit audit applicants.csv 'group=[sex,race]' selected=hired decision=requisition
  fairbandit audit applicants.csv group=sex 'selected={status: [Hired, Offer]}' unknown=[n/a]
  fairbandit audit --plan epsilon=0.05"""


def audit(words: Sequence[str]) -> None:
    """Prints an audit of a log or of a table, and writes its page."""
    if "--plan" in words:
        _plan(read_words("audit", _HELP, [word for word in words if word != "--plan"]))
        return
    given = read_words("audit", _HELP, words, "FILE")
    out = given.settings.pop("out", None)
    report = audit_of(given)
    show(report)
    write(report, out)


def audit_of(given: Words) -> Report:
    """Returns the report of the audit of a log or of a table of people."""
    ((path,), settings, said), form = given, given.settings.pop("form", None)
    columns = given_table(path, settings)
    if form is not None:
        check_known("form", [form], ["ll144"])
        if columns is None:
            raise FairbanditError(f"form={form}: expected a table, with selected or score")
        return local_law_144(audit_table(path, **columns), path, said)
    if columns is not None:
        return of_table(path, said, **columns)
    log, options = given_log(path, settings, audited)
    return of_log(log, path, said, **options)


def _plan(given: Words) -> None:
    options = given.only(keywords(plan))
    if "epsilon" not in options:
        raise FairbanditError("audit --plan needs epsilon, as in epsilon=0.05")
    table = plan(**options)
    rows = [
        (f"{row.power:g}", f"{row.decisions:,}", f"{row.checked:.1%}") for row in table.itertuples()
    ]
    heads = ["power", "decisions", "seen in fresh simulated logs"]
    console().print(make_table(heads, rows, right=heads))

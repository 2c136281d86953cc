"""Reports of tables with a row for each person: their audit, and the form of Local Law 144."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairbandit.audit.applicants import SELECTION
from fairbandit.audit.applicants_page import table_page, unknown_of
from fairbandit.audit.report import Page, hashes
from fairbandit.evaluation.groups import SMALL
from fairbandit.report.page import Report
from fairbandit.runs.sheets import Sheet
from fairbandit.tables.labels import UNKNOWN
from fairbandit.version import VERSION

if TYPE_CHECKING:
    import pandas as pd

_SMALL = f"""\
A * marks a category with less than {SMALL:.0%} of the people (§ 5-301 (d)). Its rate does not count
as the highest rate."""

_RATES = """\
The {measure} rate of a category is the share of its people who {verb}. The impact ratio is this
rate divided by the highest rate (6 RCNY § 5-300)."""

_TO_ADD = """\
The publisher of this summary adds the date of the audit, the source and explanation of the data,
and the date on which the tool was first used (§ 5-303)."""


def of_table_audit(page: Page, path: Path, words: Sequence[str]) -> Report:
    """Reports the page of the audit of a table; `words` are the settings of the command."""
    _, facts, said, *parts = page
    assert isinstance(facts, Sheet)
    facts = replace(facts, rows=[*facts.rows, ("settings", " ".join(words))])
    texts = [part.replace("**", "") if isinstance(part, str) else part for part in parts]
    question = f"At which rates were the groups in {path.name} selected?"
    whole: Page = ["## By group", said, *texts, "## How it was made", facts]
    return Report.of(f"Audit of {path.name}", question, whole)


def of_table(path: Path, words: Sequence[str] = (), **options: Any) -> Report:
    """Reports the audit of a table; for `options`, see `audit_table`."""
    return of_table_audit(table_page(path, **options)[0], path, words)


def local_law_144(table: pd.DataFrame, path: Path, words: Sequence[str] = ()) -> Report:
    """Reports a table of `audit_table` as the summary of a bias audit under Local Law 144.

    Args:
        table: the result of `audit_table`.
        path, words: the file of the people, and the settings of the command.

    References: 6 RCNY § 5-301 and § 5-303, whose tables are these.
    """
    parts: list[Any] = []
    for measure, rows in table.groupby("measure", sort=False):
        verb = "were selected" if measure == SELECTION else "scored above the median"
        for attribute, found in rows.groupby("attribute", sort=False):
            parts += [f"## {attribute}: {measure} rates", _categories(found, attribute)]
        parts += [_RATES.format(measure=measure, verb=verb)]
    parts += [_SMALL] if table["small"].any() else []
    parts += ["## Unknown categories"]
    parts += [
        f"{attribute}: {count:,} people of an unknown category do not enter the calculations."
        for attribute, count in unknown_of(table).items()
    ]
    facts = {"settings": " ".join(words), "fairbandit": VERSION, **hashes(path)}
    parts += ["## How it was made", Sheet(("", ""), [*facts.items()], names=2), _TO_ADD]
    question = "At which rates were the categories selected, or scored above the median?"
    return Report.of("Bias audit under New York's Local Law 144", question, parts)


def _categories(rows: pd.DataFrame, attribute: str) -> Sheet:
    """Returns the published table of an attribute."""
    selects = rows["measure"].iloc[0] == SELECTION
    names = ["# selected", "selection rate"] if selects else ["scoring rate"]
    lines = []
    for row in rows[rows["group"] != UNKNOWN].itertuples():
        counts = [f"{row.received:,}", *([f"{row.selected:,}"] if selects else [])]
        ratio = "–" if row.impact_ratio != row.impact_ratio else f"{row.impact_ratio:.2f}"
        lines.append([row.group + " *" * row.small, *counts, f"{row.rate:.1%}", ratio])
    return Sheet((attribute, "# of applicants", *names, "impact ratio"), lines)


FORMS = {"ll144": local_law_144}
"""The forms of authorities, by the name of `fairbandit report --form`."""

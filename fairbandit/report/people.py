"""Reports of tables with a row for each person: their audit, and the form of Local Law 144."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairbandit.audit.applicants import audit_table
from fairbandit.audit.rates import SELECTION
from fairbandit.evaluation.estimates import SMALL
from fairbandit.report.groups import draw_rates, facts_sheet, hashes, rates_of
from fairbandit.report.page import Part, Report
from fairbandit.runs.sheets import Sheet
from fairbandit.tables.labels import UNKNOWN
from fairbandit.version import VERSION

if TYPE_CHECKING:
    import pandas as pd

_JUDGED = """\
Four fifths. A group is below four fifths if the whole interval of its impact ratio is below
0.8, and above if no part is. Otherwise the table cannot say which it is. The rule of thumb in
29 CFR § 1607.4 D compares the impact ratio itself with 0.8. Shortfall: how many further people of
the group had to be selected, all else equal, for an impact ratio of 0.8. Fisher p: the two-sided p
of Fisher's exact test of the hypothesis that the group and the group with the highest rate have the
same rate. It is not corrected for the number of groups."""

_LIMITS = """\
Limits. People whose group is unknown are counted in the rows "unknown"; they do not enter the
rates, shares, ratios and medians. Intervals take {units} to be independent, and Fisher's test takes
people to be independent. The audit does not examine whether the table is complete and true, why
rates differ, or who was the better candidate."""

_SMALL = f"""\
A * marks a category with less than {SMALL:.0%} of the people (§ 5-301 (d)). Its rate does not count
as the highest rate."""

_RATES = """\
The {measure} rate of a category is the share of its people who {verb}. The impact ratio is this
rate divided by the highest rate (6 RCNY § 5-300)."""

_TO_ADD = """\
The publisher of this summary adds the date of the audit, the source and explanation of the data,
and the date on which the tool was first used (§ 5-303)."""


def of_table(path: Path, words: Sequence[str] = (), **options: Any) -> Report:
    """Reports the audit of a table; for `options`, see `audit_table`."""
    table = audit_table(path, **options)
    first = table[table["measure"] == table["measure"].iloc[0]]
    facts = {
        "people": f"{first[first['attribute'] == first['attribute'].iloc[0]]['received'].sum():,}",
        **{f"unknown {name}": f"{count:,}" for name, count in unknown_of(table).items()},
        **hashes(path),
        "settings": " ".join(words or [f"{key}={value}" for key, value in options.items()]),
    }
    units = "people" if options.get("decision") is None else "decisions"
    parts = [
        "## By group",
        *rates_of(table, "people"),
        draw_rates(table),
        _JUDGED,
        _LIMITS.format(units=units),
        "## How it was made",
        facts_sheet(facts),
    ]
    question = f"At which rates were the groups in {path.name} selected?"
    return Report(f"Audit of {path.name}", question, parts, table)


def unknown_of(table: pd.DataFrame) -> dict[str, int]:
    """Returns the number of people whose group is unknown, by attribute."""
    first = table[table["measure"] == table["measure"].iloc[0]]
    counts = first["received"].where(first["group"] == UNKNOWN, 0)
    return counts.groupby(first["attribute"], sort=False).sum().to_dict()


def local_law_144(table: pd.DataFrame, path: Path, words: Sequence[str] = ()) -> Report:
    """Reports a table of `audit_table` as the summary of a bias audit under Local Law 144.

    Args:
        table: the result of `audit_table`.
        path, words: the file of the people, and the settings of the command.

    References: 6 RCNY § 5-301 and § 5-303, whose tables are these.
    """
    parts: list[Part] = []
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
    parts += ["## How it was made", facts_sheet(facts), _TO_ADD]
    question = "At which rates were the categories selected, or scored above the median?"
    return Report("Bias audit under New York's Local Law 144", question, parts, table)


def _categories(rows: pd.DataFrame, attribute: str) -> Sheet:
    selects = rows["measure"].iloc[0] == SELECTION
    names = ["# selected", "selection rate"] if selects else ["scoring rate"]
    lines = []
    for row in rows[rows["group"] != UNKNOWN].itertuples():
        counts = [f"{row.received:,}", *([f"{row.selected:,}"] if selects else [])]
        ratio = "–" if row.impact_ratio != row.impact_ratio else f"{row.impact_ratio:.2f}"
        lines.append([row.group + " *" * row.small, *counts, f"{row.rate:.1%}", ratio])
    return Sheet((attribute, "# of applicants", *names, "impact ratio"), lines)

"""The page of an audit of a table with a row for each person."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairbandit.audit.applicants import SCORING, SELECTION, audit_table
from fairbandit.audit.report import (
    RATE,
    RATES,
    Page,
    draw_rates,
    hashes,
    height_of,
    sheet_of,
    write_page,
)
from fairbandit.figures.style import WIDTH, applied, shortened
from fairbandit.runs.sheets import Sheet
from fairbandit.tables.labels import UNKNOWN
from fairbandit.version import VERSION

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

RATES_OF = {
    SELECTION: RATE,
    SCORING: "the share of people whose score is above the median of all people with a known group",
}
"""The definition of the rate, by measure."""

JUDGED = """\
**Four fifths.** A group is below four fifths if the whole interval of its impact ratio is below
0.8, and above if no part is. Otherwise the table cannot say which it is. The rule of thumb in
29 CFR § 1607.4 D compares the impact ratio itself with 0.8. Shortfall: how many further people of
the group had to be selected, all else equal, for an impact ratio of 0.8. Fisher p: the two-sided p
of Fisher's exact test of the hypothesis that the group and the group with the highest rate have the
same rate. It is not corrected for the number of groups."""

LIMITS = """\
**Limits.** People whose group is unknown are counted in the rows "unknown"; they do not enter the
rates, shares and ratios. Intervals take {units} to be independent, and Fisher's test takes people
to be independent. The audit does not examine whether the table is complete and true, why rates
differ, or who was the better candidate."""


def report_table(source: Path, out: Path, **options: Any) -> tuple[Page, list[Path]]:
    """Writes audit.md, .csv, .png and .pdf of `table_page` to a folder; returns page and paths."""
    page, table = table_page(source, **options)
    return page, write_page(page, table, out)


def table_page(source: Path, **options: Any) -> tuple[Page, pd.DataFrame]:
    """Returns the page of the `audit_table` of a file, and its table."""
    table = audit_table(source, **options)
    by_measure = dict(list(table.groupby("measure", sort=False)))
    facts = {
        "people": f"{next(iter(people_of(table).values())):,}",
        **{f"unknown {name}": f"{count:,}" for name, count in unknown_of(table).items()},
        f"fairbandit {VERSION}": ", ".join(f"{key}={value}" for key, value in options.items()),
        **hashes(source),
    }
    tables = dict[str, Sheet]()
    for measure, rows in by_measure.items():
        names = {"selected": "above_median"} if measure == SCORING else {}
        shown = rows.drop(columns="picked_share").rename(columns=names)
        text = RATES.format(rate=RATES_OF[measure], people="people")
        tables[text] = sheet_of(shown, "attribute")
    units = "people" if options.get("decision") is None else "decisions"
    page: Page = [
        "# Audit of people",
        Sheet(("", ""), [*facts.items()], names=2),
        Sheet(("in words",), [[words] for words in table["words"]]),
        *(part for text, sheet in tables.items() for part in (sheet, text)),
        draw_table(table),
        JUDGED,
        LIMITS.format(units=units),
    ]
    return page, table


def draw_table(table: pd.DataFrame) -> Figure:
    """Draws a row for each attribute and a column for each measure: rates with intervals."""
    from matplotlib.figure import Figure

    known = table[table["group"] != UNKNOWN]
    attributes, measures = known["attribute"].unique(), known["measure"].unique()
    with applied(text="".join([*known["attribute"], *known["group"]])):
        by = dict(list(known.groupby(["attribute", "measure"], sort=False)))
        heights = [height_of(by[name, measures[0]]["group"]) for name in attributes]
        size = (WIDTH * (1 + len(measures)) / 3, sum(heights))
        figure = Figure(figsize=size, layout="constrained")
        shape = len(attributes), len(measures)
        grid = figure.subplots(*shape, squeeze=False, sharey="row", height_ratios=heights)
        for panels, attribute in zip(grid, attributes, strict=True):
            for panel, measure in zip(panels, measures, strict=True):
                draw_rates(panel, by[attribute, measure])
                panel.set(xlabel=f"{measure} rate")
            panels[0].set_title(shortened(attribute, WIDTH / 3, most=2))
    return figure


def people_of(table: pd.DataFrame) -> dict[str, int]:
    """Returns the number of people by attribute, with those whose group is unknown."""
    first = table[table["measure"] == table["measure"].iloc[0]]
    return first.groupby("attribute", sort=False)["received"].sum().to_dict()


def unknown_of(table: pd.DataFrame) -> dict[str, int]:
    """Returns the number of people whose group is unknown, by attribute."""
    first = table[table["measure"] == table["measure"].iloc[0]]
    counts = first["received"].where(first["group"] == UNKNOWN, 0)
    return counts.groupby(first["attribute"], sort=False).sum().to_dict()

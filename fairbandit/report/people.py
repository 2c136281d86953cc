"""Reports of audits: rates of groups, tables of people, and the form of Local Law 144."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.audit.applicants import audit_table
from fairbandit.audit.rates import SCORING, SELECTION, SMALL_SHARE
from fairbandit.figures.style import WIDTH, applied, group_line, shortened, write_numbers
from fairbandit.report.page import Part, Report, facts_sheet, hashes
from fairbandit.runs.sheets import Sheet
from fairbandit.tables.labels import UNKNOWN
from fairbandit.version import VERSION

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

IN_WORDS = ("in words",)  # the header of the sentences of an audit

MOST_SENTENCES = 12
"""The largest number of sentences on groups that stand before their table, and on the screen."""

_FORMS = {
    **dict.fromkeys(("received", "selected", "above_median", "shortfall"), ","),
    **dict.fromkeys(("drift_at", "order_at", "parity_at"), ","),
    **dict.fromkeys(("rate", "low", "high"), ".4f"),
    **dict.fromkeys(("share", "picked_share"), ".1%"),
    "gap": "+.1%",
    "impact_ratio": ".3f",
    **dict.fromkeys(("ratio_low", "ratio_high"), ".2f"),
    **dict.fromkeys(("drift_p", "order_p", "parity_p", "fisher_p"), ".2g"),
    "four_fifths": "",
}

_RATES = {
    SELECTION: "selected ÷ received",
    SCORING: "the share of {people} whose score is above the median",
}

_COLUMNS = f"""\
Rate: {{rate}}, with its interval from low to high. Share: the group's share of all {{people}}.
Impact ratio: the rate ÷ the highest rate of the larger groups, with its interval from ratio low to
ratio high. A rate may be the highest by chance, so the interval is corrected for the number of
groups (Bonferroni). A * marks small groups, with less than {SMALL_SHARE:.0%} of the {{people}}."""


_JUDGED = """\
Four fifths. A group is below four fifths if the whole interval of its impact ratio is below
0.8, and above if no part is. Otherwise the table cannot say which it is. The rule of thumb in
29 CFR § 1607.4 D compares the impact ratio itself with 0.8. Shortfall: how many further people of
the group had to be selected, all else equal, for an impact ratio of 0.8. Fisher p: the two-sided p
of Fisher's exact test of the hypothesis that the group and the group with the highest rate have the
same rate. It is not corrected for the number of groups."""

_LIMITS = """\
Limits. People whose group is unknown are counted in the rows "unknown"; they do not enter the
rates, shares, ratios and medians. {independent} to be independent. The audit does not
examine whether the table is complete and true, why rates differ, or who was the better
candidate."""

_SMALL = f"""\
A * marks a category with less than {SMALL_SHARE:.0%} of the people (§ 5-301 (d)). Its rate does not
count as the highest rate."""

_CATEGORY_RATES = """\
The {measure} rate of a category is the share of its people who {verb}. The impact ratio is this
rate divided by the highest rate (6 RCNY § 5-300)."""

_TO_ADD = """\
The publisher of this summary adds the date of the audit, the source and explanation of the data,
and the date on which the tool was first used (§ 5-303)."""


def rates_of(table: pd.DataFrame, people: str) -> list[Part]:
    """Returns the sentences of an audit, and the table of each measure with its explanation.

    Many sentences follow the tables, by impact ratio, those on small groups last. `people` says who
    is received: people, or candidates.
    """
    many, sentences = len(table) > MOST_SENTENCES, table
    if many:
        last = table["small"] | table["impact_ratio"].isna()  # 0 of 1 person says little
        sentences = table.assign(last=last).sort_values(["last", "impact_ratio"])
    words: list[Part] = [Sheet(IN_WORDS, [[words] for words in sentences["words"]])]
    parts: list[Part] = []
    for measure, rows in table.groupby("measure", sort=False):
        if measure == SCORING:
            rows = rows.rename(columns={"selected": "above_median"}).dropna(axis=1, how="all")
        if measure == SCORING or "choices" not in table:
            rows = rows.drop(columns="picked_share")
        rate = _RATES[str(measure)].format(people=people)
        parts += [_sheet(rows), _COLUMNS.format(rate=rate, people=people)]
    return parts + words if many else words + parts


def _sheet(table: pd.DataFrame) -> Sheet:
    forms = {name: _FORMS[name] for name in table if name in _FORMS}
    rows = [
        [row["attribute"], row["group"] + " *" * row["small"]]
        + ["–" if row[name] is None else f"{row[name]:{form}}" for name, form in forms.items()]
        for row in table.astype(object).where(table.notna(), None).to_dict("records")
    ]
    return Sheet([name.replace("_", " ") for name in ("attribute", "group", *forms)], rows, names=2)


def draw_rates(
    table: pd.DataFrame,
    wealth: Mapping[str, Mapping[str, Any]] | None = None,
    confidence: float = 0.95,
) -> Figure:
    """Draws a row of panels for each attribute: rates with intervals, and the wealth of tests."""
    from matplotlib.figure import Figure

    known, tests = table[table["share"].notna()], wealth or {}
    measures, by = known["measure"].unique(), list(known.groupby("attribute", sort=False))
    panels = len(measures) + len(tests)
    names = [[_in_lines(group) for group in rows["group"].unique()] for _, rows in by]
    lines = [len(own) * max(1 + name.count("\n") for name in own) for own in names]
    heights = [0.7 + max(0.9, 0.17 * count) for count in lines]
    with applied():
        size = (WIDTH * (panels + (not tests)) / 3, sum(heights))
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(len(by), panels, squeeze=False, height_ratios=heights)
        for row, (attribute, rows) in zip(grid, by, strict=True):
            for panel, measure in zip(row, measures, strict=False):
                looks = _draw_rates(panel, rows[rows["measure"] == measure])
                panel.set_xlabel(f"{measure} rate")
                if panel is not row[0]:
                    panel.set_yticklabels([])
            row[0].set_title(shortened(attribute, WIDTH / 3, most=2))
            for panel, test in zip(row[len(measures) :], tests, strict=True):
                n = tests[test][attribute].shape[1]
                at = np.unique(np.linspace(0, n - 1, 2000).astype(np.int64))
                for one, look in zip(tests[test][attribute], looks, strict=True):
                    panel.plot(at + 1, one[at] / math.log(10), **look)
                rejected = math.log10((table["measure"] == SELECTION).sum() / (1 - confidence))
                panel.axhline(rejected, color="black", linewidth=0.6)
                where = {"transform": panel.get_yaxis_transform(), "va": "bottom", "ha": "right"}
                text = f"rejected at {1 - confidence:g}"
                panel.text(0.98, rejected, text, fontsize="small", **where)
                panel.set(xlabel="decision", ylabel="log₁₀ wealth", title=f"test of {test}")
                write_numbers(panel, WIDTH / 8)
            if tests:
                row[-1].legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _draw_rates(panel: Any, rows: pd.DataFrame) -> list[dict[str, Any]]:
    groups = rows["group"].tolist()
    looks = [group_line(code, groups) for code in range(len(groups))]
    for row, look, y in zip(rows.itertuples(), looks, range(len(groups)), strict=True):
        look["label"] = _in_lines(look["label"])
        arms = [[row.rate - row.low], [row.high - row.rate]]
        panel.errorbar(row.rate, y, xerr=arms, marker="o", color=look["color"])
    panel.set_yticks(range(len(groups)), [look["label"] for look in looks])
    panel.set_ylim(len(groups) - 0.5, -0.5)
    return looks


def _in_lines(label: str) -> str:
    return shortened(label, WIDTH / 6, most=2)


def of_table(path: Path, words: Sequence[str] = (), **options: Any) -> Report:
    """Reports the audit of a table; for `options`, see `audit_table`."""
    table = audit_table(path, **options)
    first = table[table["measure"] == table["measure"].iloc[0]]
    people = first[first["attribute"] == first["attribute"].iloc[0]]["received"].sum()
    facts = {
        "people": f"{people:,}",
        **{f"unknown {name}": f"{count:,}" for name, count in unknown_of(table).items()},
        **hashes(path),
        "settings": " ".join(words or [f"{key}={value}" for key, value in options.items()]),
    }
    independent = "Intervals take decisions, and Fisher's test takes people,"
    if options.get("decision") is None:
        independent = "Intervals and Fisher's test take people"
    parts = [
        "## By group",
        *rates_of(table, "people"),
        draw_rates(table),
        _JUDGED,
        _LIMITS.format(independent=independent),
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
        for attribute, categories in rows.groupby("attribute", sort=False):
            parts += [f"## {attribute}: {measure} rates", _categories(categories, attribute)]
        parts += [_CATEGORY_RATES.format(measure=measure, verb=verb)]
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

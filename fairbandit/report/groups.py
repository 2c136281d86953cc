"""The parts that reports of logged decisions and of tables of people share: rates of groups."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.audit.rates import SCORING, SELECTION
from fairbandit.evaluation.estimates import SMALL
from fairbandit.figures.style import WIDTH, applied, group_line, shortened, write_numbers
from fairbandit.files.files import sha256
from fairbandit.report.page import Part
from fairbandit.runs.sheets import Sheet

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

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
groups (Bonferroni). A * marks small groups, with less than {SMALL:.0%} of the {{people}}."""


def rates_of(table: pd.DataFrame, people: str) -> list[Part]:
    """Returns the sentences of an audit, and the table of each measure with its explanation.

    `people` says who is received: people, or candidates.
    """
    parts: list[Part] = [Sheet(("in words",), [[words] for words in table["words"]])]
    for measure, rows in table.groupby("measure", sort=False):
        if measure == SCORING:
            rows = rows.rename(columns={"selected": "above_median"}).dropna(axis=1, how="all")
        if measure == SCORING or "choices" not in table:
            rows = rows.drop(columns="picked_share")
        rate = _RATES[str(measure)].format(people=people)
        parts += [_sheet(rows), _COLUMNS.format(rate=rate, people=people)]
    return parts


def _sheet(table: pd.DataFrame) -> Sheet:
    forms = {name: _FORMS[name] for name in table if name in _FORMS}
    rows = [
        [row["attribute"], row["group"] + " *" * row["small"]]
        + ["–" if row[name] is None else f"{row[name]:{form}}" for name, form in forms.items()]
        for row in table.astype(object).where(table.notna(), None).to_dict("records")
    ]
    return Sheet([name.replace("_", " ") for name in ("attribute", "group", *forms)], rows, names=2)


def facts_sheet(facts: Mapping[str, Any]) -> Sheet:
    """Returns the table of how a report was made."""
    return Sheet(("", ""), [*facts.items()], names=2)


def hashes(source: Path) -> dict[str, str]:
    """Returns the hashes of a file, or of the files in a folder, by their names."""
    files = sorted(source.iterdir()) if source.is_dir() else [source]
    return {f"SHA-256 of {file.name}": sha256(file) for file in files if file.is_file()}


def draw_rates(
    table: pd.DataFrame,
    wealth: Mapping[str, Mapping[str, Any]] | None = None,
    confidence: float = 0.95,
) -> Figure:
    """Draws a row of panels for each attribute: rates with intervals, and the wealth of tests."""
    from matplotlib.figure import Figure

    known, tests = table[table["share"].notna()], wealth or {}
    measures, by = known["measure"].unique(), list(known.groupby("attribute", sort=False))
    with applied():
        heights = [_height(rows["group"].unique()) for _, rows in by]
        panels = len(measures) + len(tests)
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


def _height(groups: Sequence[str]) -> float:
    lines = max(1 + _in_lines(group).count("\n") for group in groups)
    return 0.7 + max(0.9, 0.17 * lines * len(groups))


def _in_lines(label: str) -> str:
    return shortened(label, WIDTH / 6, most=2)

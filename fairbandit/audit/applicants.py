"""Audits a table with a row for each person, such as applicants, without rewards or propensities.

References: 6 RCNY § 5-300 and § 5-301 (New York's Local Law 144: selection rates, scoring rates and
impact ratios); 29 CFR § 1607.4 D (the four-fifths rule); Fisher, "The logic of inductive
inference", Journal of the Royal Statistical Society 1935 (the exact test).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from fairbandit.audit.rates import (
    SCORING,
    SELECTION,
    SMALL_SHARE,
    Attribute,
    in_words,
    note_unknown,
    rates,
    with_pairs,
)
from fairbandit.errors import FairbanditError, shown
from fairbandit.errors import unknown as unknown_name
from fairbandit.evaluation.estimates import checked_confidence
from fairbandit.logs import Floats
from fairbandit.logs.reading import WORDS
from fairbandit.notices import listed, remark
from fairbandit.tables import cells
from fairbandit.tables.columns import group_columns
from fairbandit.tables.labels import UNKNOWN, normal
from fairbandit.tables.reading import read_table, texts_of

if TYPE_CHECKING:
    import pandas as pd

Labels = NDArray[np.object_]

COLUMNS = (
    *("measure", "attribute", "group", "received", "selected", "rate", "low", "high", "share"),
    *("picked_share", "small", "impact_ratio", "reference", "ratio_low", "ratio_high"),
    *("four_fifths", "shortfall", "fisher_p", "words"),
)

ANSWERS = {"1": 1.0, "true": 1.0, "0": 0.0, "false": 0.0}
"""The cells that say whether a person was selected, beside yes and no."""

NOT_SAID = (
    *("declined", "n/a", "not disclosed", "not specified", "not stated", "no answer", "none"),
    *("decline to answer", "prefer not to answer", "prefer not to say", "refused", "undisclosed"),
)
"""Labels that may mean that a person did not say, in lower case; a notice names them."""


def audit_table(
    source: Any,
    *,
    group: Any = "group",
    selected: str | Mapping[str, Any] | None = None,
    score: str | None = None,
    decision: str | None = None,
    unknown: Sequence[str] = (),
    confidence: float = 0.95,
    separator: str = ",",
    decimal: str = ".",
    thousands: str | None = None,
    missing_values: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Audits a table with a row for each person.

    The table needs neither rewards nor propensities, and a decision may select any number of
    people. People whose group is unknown are counted, and do not enter the rates by this group.

    Args:
        source: a CSV or Parquet file, a DataFrame, an Arrow table, a mapping of columns, or a list
            of rows as mappings.
        group: the column of the sensitive group, or a list of several columns, whose pairs are
            audited, too.
        selected: the column that says whether a person was selected: yes or no, true or false, 1 or
            0. A mapping such as `{"status": ["hired", "offer"]}` names a column and the labels of
            people who were selected; people with another label were not.
        score: the column of scores, where higher is better. People without a score do not enter the
            scoring rates.
        decision: the column that says which people were decided on together, such as a requisition.
            Intervals are then by decision. Without it, people are taken to be independent.
        unknown: labels of people who did not say, beside `unknown` and missing cells.
        confidence: the confidence of the intervals of all ratios of an attribute together.
        separator, decimal, thousands, missing_values: as for `fairbandit.read_table`.

    Returns:
        A row for each measure (`selection` or `scoring`), attribute and group, and a row `unknown`
        for the people without a group, if there are any. It has the columns of the table of an
        `Audit`. In rows of `scoring`, `selected` is the number of people who scored above the
        median of all people whose group is known. There are three further columns. `four_fifths`
        is `below` or `above` if the whole interval of the impact ratio is below, or not below, 0.8;
        otherwise it is `cannot say`. `shortfall` is the number of further people of the group who
        had to be selected, all else equal, for an impact ratio of 0.8. `fisher_p` is the two-sided
        p of Fisher's exact test of the group and the reference. It is not corrected for the number
        of groups, and takes people to be independent.

    Raises:
        FairbanditError: an argument does not fit, or a cell is invalid.

    >>> people = {"sex": [*"fffffmmmm", None], "hired": [1, 0, 0, 0, 0, 1, 1, 0, 0, 1]}
    >>> table = audit_table(people, group="sex", selected="hired").set_index("group")
    >>> table["received"].to_dict()
    {'f': 5, 'm': 4, 'unknown': 1}
    >>> float(table["impact_ratio"]["f"]), table["four_fifths"]["f"]
    (0.4, 'cannot say')
    """
    import pandas as pd

    confidence, names = checked_confidence(confidence), group_columns(group)
    if selected is None and score is None:
        raise FairbanditError("expected selected or score: the column by which groups are compared")
    marks: Any = {"separator": separator, "decimal": decimal, "thousands": thousands}
    table = read_table(source, missing_values=missing_values, **marks)
    name, column, chosen = cells.name_of(table), cast("str | None", selected), None
    if isinstance(selected, Mapping):
        if len(selected) != 1:
            raise FairbanditError(
                f"selected: expected one column with its labels, got {shown(selected)}"
            )
        ((column, chosen),) = selected.items()
    roles = {"group": names, "selected": [column], "score": [score], "decision": [decision]}
    lacking = [key for key, columns in roles.items() if {*columns} - {None, *table}]
    where = f"set {' '.join(f'{key}=COLUMN' for key in lacking)}; "
    cells.need(table, [of for columns in roles.values() for of in columns if of is not None], where)
    if not len(table):
        raise FairbanditError(f"{name} holds no row")
    labelled = cells.with_unknown(table, names, texts_of("unknown", unknown))
    labels = {of: cells.labels(labelled, of) for of in names}
    decisions, measures = np.arange(len(table)), dict[str, Floats]()
    if decision is not None:
        cells.require(table, decision, ~cells.gaps(table, decision), "a value")
        decisions = pd.factorize(table[decision])[0]
    if column is not None:
        measures[SELECTION] = _answers(table, column, chosen)
    if score is not None:
        measures[SCORING] = cells.numbers(table, score)
        if without := int(np.isnan(measures[SCORING]).sum()):
            remark(f"{name}: {without:,} people without {score!r} enter no scoring rate")
    coded = dict[str, Attribute]()
    for of, every in labels.items():
        _check_labels(name, of, every)
        codes, known_labels = pd.factorize(pd.Series(every).mask(every == UNKNOWN), sort=True)
        coded[of] = codes, tuple(known_labels)
    rated = rates(measures, with_pairs(coded), decisions, confidence, independent=decision is None)
    counts = rated.set_index(["measure", "attribute", "group"])[["selected", "received"]]
    judged = [_judged(row, counts.astype(int)) for row in rated.to_dict("records")]
    audited = pd.DataFrame(judged).reindex(columns=COLUMNS)
    note_unknown(f"{name}, ", audited)
    audited = audited.astype({"small": bool, "shortfall": "Int64"})
    audited["words"] = [in_words(row, confidence) for row in audited.to_dict("records")]
    return audited


def _answers(table: pd.DataFrame, column: str, chosen: Any) -> Floats:
    """Returns 1 for people who were selected, and 0 for others."""
    labels, gaps = cells.labels(table, column), cells.gaps(table, column)
    labels[gaps] = None
    answers = np.array([ANSWERS.get(WORDS.get(label, label), math.nan) for label in labels])
    if chosen is None:
        takes = f"selected={{{column}: [...]}} takes labels, and people without one as not selected"
        expected = f"yes or no, true or false, 1 or 0; {takes}"
        cells.require(table, column, ~np.isnan(answers), expected)
        return answers
    selected = np.zeros(len(labels))
    for word in chosen if isinstance(chosen, (list, tuple)) else [chosen]:
        # YAML reads yes as true
        same = answers == word if isinstance(word, bool) else labels == normal(word)
        if not same.any():
            of_column = f"label in column {column!r} of {cells.name_of(table)}"
            raise unknown_name(of_column, word, sorted({*labels[~gaps]})[:30])
        selected[same] = 1.0
    if count := int(gaps.sum()):
        remark(f"{cells.name_of(table)}: {count:,} people without {column!r} count as not selected")
    return selected


def _check_labels(table: str, column: str, labels: Labels) -> None:
    """Refuses a column without groups, and notes labels that may be one group or unknown."""
    sizes = Counter(labels[labels != UNKNOWN].tolist())
    if not sizes:
        raise FairbanditError(f"{table}, column {column!r}: the group of everyone is unknown")
    if max(sizes.values()) < SMALL_SHARE * sizes.total():
        raise FairbanditError(
            f"{table}, column {column!r}: none of {len(sizes):,} groups has {SMALL_SHARE:.0%} of "
            "the people; expected few labels, as of a number cut into intervals"
        )
    folded = Counter(map(str.casefold, sizes))
    if alike := [repr(label) for label in sizes if folded[label.casefold()] > 1]:
        remark(f"{table}: groups differ in upper and lower case alone: {listed(alike)}")
    if unsaid := [label for label in sizes if label.casefold() in NOT_SAID]:
        remark(
            f"{table}: people of the groups {listed([*map(repr, unsaid)])} may not have said; "
            f"unknown=[{','.join(unsaid)}] counts them as unknown"
        )


def _judged(row: dict[str, Any], counts: pd.DataFrame) -> dict[str, Any]:
    """Compares a row with the row of its reference."""
    from scipy.stats import fisher_exact

    if row["group"] == row["reference"] or not isinstance(row["reference"], str):
        return row
    hits, n = counts.loc[(row["measure"], row["attribute"], row["reference"])]
    own_hits, own_n = row["selected"], row["received"]
    verdict = "below" if row["ratio_high"] < 0.8 else "above" if row["ratio_low"] >= 0.8 else ""
    row["four_fifths"] = verdict or "cannot say"
    # the least k with (own_hits + k)/own_n ≥ 4/5·hits/n, in whole numbers
    row["shortfall"] = max(-((5 * n * own_hits - 4 * hits * own_n) // (5 * n)), 0)
    row["fisher_p"] = fisher_exact([[own_hits, own_n - own_hits], [hits, n - hits]]).pvalue
    return row

"""Audits logged decisions: selection rates of groups, and two anytime-valid tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fairbandit.agent.inputs import number, whole
from fairbandit.audit.processes import FIRST_FREEZES, arrival, differences, disparity, drift
from fairbandit.audit.rates import (
    SCORING,
    SELECTION,
    Attribute,
    in_words,
    note_unknown,
    rates,
    with_pairs,
)
from fairbandit.errors import FairbanditError
from fairbandit.evaluation.estimates import checked_confidence
from fairbandit.logs import Floats, Log
from fairbandit.logs.log import check_log
from fairbandit.logs.tables import PEOPLE

if TYPE_CHECKING:
    import pandas as pd


class Audit(NamedTuple):
    """An audit of a log of n decisions.

    Attributes:
        table: one row for each measure (`selection`, and `scoring` if the log has scores) and for
            each group of each attribute and of each pair of attributes. `share` and `picked_share`
            are its shares of all candidates and of all picks. ε bounds the expectation of their
            difference in a decision with a choice; `choices` is the number of such decisions, and
            `gap` the mean of their differences. The interval of the `impact_ratio` to the group
            `reference` is `ratio_low` to `ratio_high`, and `words` is the row as a sentence. For
            each test, rows of selection have a column such as `drift_p`, the anytime-valid p-value
            min(1, rows/largest wealth), and `drift_at`, the first decision after which it is at
            most 1 − confidence. In rows of scoring, `selected` is the number of candidates with a
            score above the median.
        wealth: the log wealth, (G, n), by test (`drift`, `order` or `parity`) and attribute. Drift
            and order are not tested before a model is frozen, after 100 decisions.
    """

    table: pd.DataFrame
    wealth: Mapping[str, Mapping[str, Floats]]


def audit(
    log: Log,
    *,
    epsilon: float | None = None,
    order: bool = False,
    confidence: float = 0.95,
    seed: int = 0,
) -> Audit:
    """Audits a log whose decisions are in the order in which they were made.

    Args:
        log: the log, as returned by `read_log`.
        epsilon: the largest mean difference allowed between a group's share of the picks and its
            share of the candidates; None skips the test of parity.
        order: whether the places of each decision are in order of arrival, and to test that the
            order says nothing of the candidates' quality.
        confidence: the confidence of intervals; each test over all rows has the family-wise level
            1 − confidence.
        seed: the seed of the test of drift.

    Raises:
        FairbanditError: a value is out of range, or the log is empty.
    """
    import pandas as pd

    check_log(log, f"; {PEOPLE}")
    confidence, seed = checked_confidence(confidence), whole(seed, "seed")
    if epsilon is not None and not 0 <= number(epsilon, "epsilon") < 1:
        raise FairbanditError(f"epsilon: expected 0 <= epsilon < 1, got {epsilon}")
    if not len(log):
        raise FairbanditError("the log is empty; an audit needs at least one decision")
    attributes, measures = attributes_of(log), {SELECTION: log.picked.astype(np.float64)}
    if log.scores is not None:
        measures[SCORING] = log.scores
    table = rates(measures, attributes, log.decisions, confidence)
    rows = [(codes == code) for codes, labels in attributes.values() for code in range(len(labels))]
    n, gaps = len(rows), [differences(log, here) for here in rows]
    table["choices"] = pd.Series([int(choice.sum()) for _, choice in gaps], dtype="Int64")
    table["gap"] = pd.Series([d[choice].mean() if choice.any() else np.nan for d, choice in gaps])
    note_unknown("", table)
    wealths: dict[str, dict[str, Floats]] = {}
    testable = log.contexts is not None and log.missing < 1
    if order and not testable:
        raise FairbanditError("the test of the order of arrival needs contexts and rewards")
    if testable and len(log) > FIRST_FREEZES[0]:
        wealths["drift"] = {key: drift(log, *by, seed) for key, by in attributes.items()}
        if order:
            wealths["order"] = {key: arrival(log, *by) for key, by in attributes.items()}
    if epsilon is not None:
        wealths["parity"] = {key: disparity(log, *by, epsilon) for key, by in attributes.items()}
    for test, by in wealths.items():
        p = n * np.exp(-np.maximum.accumulate(np.concatenate(list(by.values())), axis=1))
        table[f"{test}_p"] = pd.Series(p[:, -1].clip(max=1))
        first = pd.Series((p <= 1 - confidence).argmax(1) + 1, dtype="Int64")
        table[f"{test}_at"] = first.where(p[:, -1] <= 1 - confidence)
    table["words"] = [in_words(row, confidence, epsilon) for row in table.to_dict("records")]
    return Audit(table, wealths)


def attributes_of(log: Log) -> dict[str, Attribute]:
    """Returns the codes, (R,), and labels of groups for each attribute and pair of attributes."""
    if not log.attributes:
        return {"group": (log.groups, tuple(map(str, log.labels)))}
    return with_pairs(log.attributes)

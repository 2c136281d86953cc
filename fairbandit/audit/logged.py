"""Audits logged decisions: selection rates of groups, and two anytime-valid tests."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fairbandit.agent.inputs import number, whole
from fairbandit.audit.processes import FIRST, arrival, differences, disparity, drift
from fairbandit.audit.rates import compared, in_words, selection_rate
from fairbandit.errors import FairbanditError, renamed
from fairbandit.evaluation.estimates import checked_confidence
from fairbandit.logs import Floats, Ints, Log
from fairbandit.logs.log import check_log
from fairbandit.logs.tables import PEOPLE

if TYPE_CHECKING:
    import pandas as pd


class Audit(NamedTuple):
    """An audit of a log of n decisions.

    Attributes:
        table: one row for each group of each attribute and of each pair of attributes. `share` and
            `picked_share` are its shares of all candidates and of all picks. ε bounds the
            expectation of their difference in a decision with a choice; `choices` is the number of
            these decisions, and `gap` the mean difference in them. The interval of the
            `impact_ratio` to the group `reference` is `ratio_low` to `ratio_high`, and `words` is
            the row as a sentence. For each test, a column such as `drift_p` has the anytime-valid
            p-value min(1, rows/largest wealth), and `drift_at` the first decision after which it is
            at most 1 − confidence.
        wealth: the log wealth, (G, n), by test (`drift`, `order` or `parity`) and attribute. Drift
            and order are not tested before a model is frozen, after 100 decisions.
    """

    table: pd.DataFrame
    wealth: Mapping[str, Mapping[str, Floats]]


@renamed
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
    attributes, rows, rates, gaps, choices = attributes_of(log), [], [], [], []
    scores = log.scores
    for attribute, (groups, labels) in attributes.items():
        for group, label in enumerate(labels):
            here = groups == group
            received, selected = log.sums(here), log.sums(here & log.picked)
            rate = selection_rate(received, selected)
            rates.append(rate.ends)
            difference, choice = differences(log, here)
            choices.append(choice.sum())
            gaps.append(difference[choice].mean() if choice.any() else np.nan)
            found = rate.value, *rate.ends(confidence)
            rows.append([attribute, label, received.sum(), selected.sum(), *found])
            if scores is not None:
                known = scores[here & ~np.isnan(scores)]
                rows[-1].append((known > np.nanmedian(scores)).mean() if len(known) else np.nan)
    columns = ["attribute", "group", "received", "selected", "rate", "low", "high", "scoring_rate"]
    table = pd.DataFrame(rows, columns=columns[: len(rows[0])])
    table = compared(table, ["attribute"], rates, confidence).assign(choices=choices, gap=gaps)
    wealths: dict[str, dict[str, Floats]] = {}
    known = log.contexts is not None and log.missing < 1
    if order and not known:
        raise FairbanditError("the test of the order of arrival needs contexts and rewards")
    if known and len(log) > FIRST[0]:
        wealths["drift"] = {key: drift(log, *by, seed) for key, by in attributes.items()}
        if order:
            wealths["order"] = {key: arrival(log, *by) for key, by in attributes.items()}
    if epsilon is not None:
        wealths["parity"] = {key: disparity(log, *by, epsilon) for key, by in attributes.items()}
    for test, by in wealths.items():
        p = len(rows) * np.exp(-np.maximum.accumulate(np.concatenate(list(by.values())), axis=1))
        table[f"{test}_p"] = p[:, -1].clip(max=1)
        first = pd.Series((p <= 1 - confidence).argmax(1) + 1, dtype="Int64")
        table[f"{test}_at"] = first.where(p[:, -1] <= 1 - confidence)
    small, rows = bool(table["small"].any()), table.to_dict("records")
    table["words"] = [in_words(row, confidence, epsilon, small=small) for row in rows]
    return Audit(table, wealths)


def attributes_of(log: Log) -> dict[str, tuple[Ints, tuple[str, ...]]]:
    """Returns the codes, (R,), and labels of groups for each attribute and pair of attributes."""
    if not log.attributes:
        return {"group": (log.groups, tuple(map(str, log.labels)))}
    coded = dict(log.attributes)
    for (left, (groups, labels)), (right, (others, names)) in combinations(coded.items(), 2):
        present, both = np.unique(groups * len(names) + others, return_inverse=True)
        pairs = tuple(f"{labels[i // len(names)]} × {names[i % len(names)]}" for i in present)
        coded[f"{left} × {right}"] = both, pairs
    return coded

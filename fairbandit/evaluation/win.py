"""Pairs of logged rewards: does a pick earn more than a random candidate of its group?

Reference: Mann and Whitney, "On a test of whether one of two random variables is stochastically
larger than the other", Ann. Math. Stat. 1947.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from fairbandit.evaluation.betting import weighted_picks
from fairbandit.evaluation.direct import weight_below
from fairbandit.evaluation.estimates import Uncertain
from fairbandit.logs import Floats, Log
from fairbandit.runs.intervals import SHARE, share_ends
from fairbandit.tables.labels import normal


def wins(log: Log, chances: Floats) -> tuple[Uncertain, dict[str, Uncertain]]:
    """Estimates P(reward of a pick > reward of a random candidate of its group), with half of ties.

    The estimate is a Mann-Whitney statistic with inverse propensities on both sides. Over pairs
    i ≠ j of a group, its share is Σ wᵢ(1/pⱼ)1{rⱼ < rᵢ} / Σ wᵢ(1/pⱼ), and v is the mean of all
    shares, weighted by the groups' Σ wᵢ. Sorting makes it O(n log n). A group with one pick has
    share ½.

    The weight of a decision in v is wᵢ/Σw as a pick, plus (1/pᵢ)/Σ(1/p) of its group as a
    reference. The effective number of these weights gives the interval (`share_ends`), and the
    effective number of their squares the degrees of freedom, less 1 for each group.

    Groups with fewer than two picks have no share in the second result.
    """
    known, weights, rewards, references, groups = weighted_picks(log, chances)
    scores = np.zeros((len(weights), 0)) if log.pick_scores is None else log.pick_scores[known]
    w, r, reference = (part.ravel() for part in (weights, rewards, references))
    influence, moved, g, value, shares = np.zeros_like(w), np.zeros_like(w), groups.ravel(), 0.0, 0
    n, of_groups = len(weights), dict[str, Uncertain]()
    for group in np.unique(g):
        here = np.flatnonzero(g == group)
        own, other = w[here], reference[here]
        of_group, references_of = float(own.sum()), float(other.sum())
        # as a pick and as a reference; each reward ties with itself
        below = own * (weight_below(r[here], other, 0.5) - other / 2)
        above = other * (of_group - weight_below(r[here], own, 0.5) - own / 2)
        both = own * (references_of - other) + other * (of_group - own)
        pairs = float(both.sum()) / 2
        comparable = pairs > 1e-12 * of_group * references_of
        share = float(below.sum()) / pairs if comparable else 0.5
        value += of_group * share / float(w.sum())
        shares += of_group > 0
        influence[here] = own * share
        if comparable:
            changes = (below + above - share * both) / pairs
            rows, label = here // weights.shape[1], normal(log.labels[group])
            influence[here] += of_group * changes
            moved[here] = own + of_group * other / references_of
            by_row = np.array([np.bincount(rows, part, n) for part in (changes, moved[here], own)])
            number = len(np.unique(rows[other > 0]))
            of_groups[label] = _uncertain(share, by_row, scores, number)
    by_row = np.stack([(influence - w * value) / w.sum(), moved, w])
    by_row = by_row.reshape(3, *weights.shape).sum(2)
    return _uncertain(value, by_row, scores, n, shares), of_groups


def _uncertain(value: float, by_row: Floats, scores: Floats, n: int, groups: int = 1) -> Uncertain:
    """Returns a share from the influence of each decision, how far it moves it, and its weight.

    `scores` are the scores of estimated propensities, which explain a part of the influence.
    """
    influence, moved, weights = by_row
    ess, freedom = _effective(moved), _effective(moved**2) - groups
    squares = float((influence**2).sum()) - float(((influence @ scores) ** 2).sum())
    variance = max(squares, 0.0) * ess / max(ess - groups, 1e-9)
    ends = partial(share_ends, value, variance, freedom, ess, SHARE)
    return Uncertain(value, ends, n, _effective(weights))


def _effective(weights: Floats) -> float:
    total = float((weights**2).sum())
    return float(weights.sum()) ** 2 / total if total else 0.0

"""Pairs of logged rewards: does a pick earn more than a random candidate of its group?

Reference: Mann and Whitney, "On a test of whether one of two random variables is stochastically
larger than the other", Ann. Math. Stat. 1947.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbandit.evaluation.direct import weight_below
from fairbandit.evaluation.estimates import Uncertain
from fairbandit.evaluation.sums import weighted_picks
from fairbandit.labels import normal
from fairbandit.logs import Floats, Log


def wins(log: Log, chances: Floats) -> tuple[Uncertain, dict[str, Uncertain]]:
    """Estimates P(reward of a pick > reward of a random candidate of its group), with half of ties.

    The estimate is a Mann-Whitney statistic with inverse propensities on both sides. Over pairs
    i ≠ j of a group, its share is Σ wᵢ(1/pⱼ)1{rⱼ < rᵢ} / Σ wᵢ(1/pⱼ), and v is the mean of all
    shares, weighted by the groups' Σ wᵢ. Sorting makes it O(n log n). A group with one pick has
    share ½. The interval loses a degree of freedom for each group.

    Returns:
        The estimate of all picks, and the shares of the groups with two picks or more, by label.
    """
    _, weights, rewards, references, groups = weighted_picks(log, chances)
    w, r, reference = (part.ravel() for part in (weights, rewards, references))
    influence, g, value, shares = np.zeros_like(w), groups.ravel(), 0.0, 0
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
        known = pairs > 1e-12 * of_group * references_of
        share = float(below.sum()) / pairs if known else 0.5
        value += of_group * share / float(w.sum())
        shares += of_group > 0
        influence[here] = own * share
        if known:
            changes = (below + above - share * both) / pairs
            rows, label = here // weights.shape[1], normal(log.labels[group])
            influence[here] += of_group * changes
            variance = float((np.bincount(rows, changes, n) ** 2).sum())
            ess = _effective(np.bincount(rows, own, n))
            variance *= ess / max(ess - 1, 1e-9)
            size = len(np.unique(rows[other > 0]))
            of_groups[label] = Uncertain.student(share, variance, ess - 1, size, ess, (0.0, 1.0))
    influence = (influence - w * value) / w.mean()
    influence, ess = influence.reshape(weights.shape).mean(1), _effective(weights.mean(1))
    wider = max(ess - 1, 0.0) / max(ess - shares, 1e-9)
    variance = float((influence**2).sum()) / max(n - 1, 1) / n * wider
    return Uncertain.student(value, variance, ess - shares, n, ess, (0.0, 1.0)), of_groups


def _effective(weights: NDArray[Any]) -> float:
    return float(weights.sum() ** 2 / (weights**2).sum())

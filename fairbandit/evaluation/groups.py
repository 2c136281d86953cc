"""The sums over decisions that determine the estimates of each group.

With the factor 1{a ∈ g}, the summands of `ips`, `snips` and `dr` estimate the picks of group g. The
sums of all groups add up to the sums of all picks, so that the reward of all picks is
Σ_g share_g·reward_g. The denominators of `ips` and `dr` are known, since a policy's own
probabilities are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairbandit.evaluation.betting import reward_ends
from fairbandit.evaluation.estimates import Moments, Uncertain
from fairbandit.logs import Floats, Ints, Log
from fairbandit.notices import listed
from fairbandit.runs.intervals import SHARE, Span
from fairbandit.tables.labels import is_unknown, normal

MOST_ROUNDED = 0.05
"""The largest relative shift of a mean weight that the rounding of propensities may explain."""

SMALL = 0.02
"""Groups with a smaller share of the candidates are small, which audits and notes say."""


class GroupSums(NamedTuple):
    """Sufficient statistics of a policy's estimates of one group.

    Attributes:
        pools: the share of the decision's picks, the picks, the candidates, and 1, for each
            decision.
        picked: wr, w, the summand of `dr`, the share of the picks, w² and the `pick_scores`, for
            each decision whose reward and propensities are known.
        counts: the number of decisions with candidates of the group, and with known picks, (2,).
        unsupported: the summed probability of candidates that the log never picks, or NaN.
    """

    pools: Moments
    picked: Moments
    counts: Ints
    unsupported: float

    @property
    def picks(self) -> float:
        """The expected number of picks of the group."""
        return float(self.pools.mean[1]) * self.pools.n

    @property
    def unseen(self) -> str:
        """The reason to refuse weighted estimates of the group's picks, or ""."""
        if self.unsupported > 1e-9 * self.picks:
            return f"no support for {self.unsupported / self.picks:.1%} of its picks"
        if self.counts[1] < 2:
            return "fewer than two logged picks with a reward"
        (_, weight, _, share), n = self.picked.mean[:4].tolist(), self.picked.n
        if not (weight > 0 and share > 0):
            return "the policy would make none of its logged picks"
        gradient = np.zeros(len(self.picked.mean))
        gradient[[1, 3]] = 1.0, -1.0
        off = 3.9 * math.sqrt(max(float(gradient @ self.picked.scatter @ gradient), 0.0)) / n
        if math.isnan(self.unsupported) and share - weight > off + MOST_ROUNDED * share:
            return f"the mean weight of its picks is {weight / share:.2f} of the right one"
        return ""

    def exact(self) -> Iterator[tuple[str, Uncertain]]:
        """Yields the share of the picks and the selection rate, which need no rewards."""
        yield "share", self.pools.ratio(0, 3, 3, self.pools.n, SHARE, share=True)
        yield "selection", self.pools.ratio(1, 2, 2, int(self.counts[0]), SHARE, share=True)


def weighted_rewards(
    picked: Moments, n: int, span: Span, limits: Span | None = None, scores: int | None = None
) -> Iterator[tuple[str, Uncertain]]:
    """Yields the weighted estimates of a mean reward, by estimator.

    The `limits` of possible rewards are for intervals that hold at all times.
    """
    for estimator, above, below in (("ips", 0, 3), ("snips", 0, 1), ("dr", 2, 3)):
        if picked.mean[below] > 0:
            yield estimator, picked.ratio(above, below, 1, n, span, squares=4, scores=scores)
    if limits is not None:
        ends = partial(reward_ends, *picked, limits, float(picked.mean[3]))
        value = float(picked.mean[0] / picked.mean[3])
        yield "anytime", Uncertain(value, ends, n, picked.effective(1))


def group_sums(
    log: Log,
    chances: Floats,
    scores: Floats,
    picked: tuple[NDArray[np.bool_], Floats, Floats, Floats, Ints],
) -> dict[str, GroupSums]:
    """Returns the sums of each group with candidates; `picked` is from `weighted_picks`."""
    known, weights, rewards, references, groups_of_picks = picked
    n, decision, slots = len(log), log.decisions, log.slots
    groups, logged = log.groups, log.probabilities
    pick_scores = () if log.pick_scores is None else log.pick_scores[known].T
    model, lacking = chances * scores, np.full(len(chances), math.nan)
    if logged is not None:
        lacking = chances * (logged <= 0)
    residuals, found = weights * (rewards - log.at_picks(scores)[known]), dict[str, GroupSums]()
    for code, label in enumerate(log.labels):
        rows = np.flatnonzero(groups == code)
        if not len(rows):
            continue
        candidates = np.bincount(decision[rows], minlength=n)
        picks, expected = (np.bincount(decision[rows], part[rows], n) for part in (chances, model))
        share, own = picks / slots, (groups_of_picks == code) & (references > 0)
        wr, w, corrected = (
            (part * own).mean(1) for part in (weights * rewards, weights, residuals)
        )
        robust = (expected / slots)[known] + corrected
        found[normal(label)] = GroupSums(
            Moments.of(np.stack([share, picks, candidates, np.ones(n)])),
            Moments.of(np.stack([wr, w, robust, share[known], w**2, *pick_scores])),
            np.array([(candidates > 0).sum(), own.any(1).sum()]),
            float(lacking[rows].sum()),
        )
    return found


def small_groups(groups: Mapping[str, GroupSums]) -> list[str]:
    """Returns a note that names the small groups, if any."""
    sizes = {label: own.pools.n * float(own.pools.mean[2]) for label, own in groups.items()}
    total = sum(sizes.values())
    few = {label: n for label, n in sizes.items() if n < SMALL * total and not is_unknown(label)}
    counts = listed([f"{label} has {n:,.0f}" for label, n in few.items()])
    note = (
        "selection_ratio and the gaps compare all groups, also groups with less than "
        f"{SMALL:.0%} of the {total:,.0f} candidates: {counts}"
    )
    return [note] if few else []

"""Selection of candidates in turn: each is taken or let go before the next is seen."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.estimators.ties import Approximate
from fairbandit.registry import register
from fairbandit.selectors.base import Selection, Selector
from fairbandit.selectors.ranked import Ranked
from fairbandit.selectors.stopping import Thresholds, hazards, thresholds
from fairbandit.streams import Purpose


class Course(NamedTuple):
    """What happens to the candidates of N openings in their order of arrival, (B, N, K) each.

    Attributes:
        taken: whether each candidate is taken.
        inclusion: the probability of that, before the opening's own draws; 0 at empty places.
        bars: the threshold that each candidate meets; ∞ once all places are taken, and −∞ where the
            places are enough for all who may come.
        expected: how many candidates are expected from each candidate on, with itself.
    """

    taken: Tensor
    inclusion: Tensor
    bars: Tensor
    expected: Tensor


@register("selector", "rolling")
class Rolling(Selector):
    """Takes each candidate or lets it go, in the order of the places, by optimal thresholds.

    With j places left when candidate i comes, it is taken if and only if its index is at least
    c(j, i); see `fairbandit.selectors.stopping`. If the index of every candidate is an independent
    U(0, 1), as relative ranks are, no other rule has a larger expected sum of the picks' ranks,
    and who is taken does not depend on the group. An index that ties with a threshold reaches it.
    Where the places left are enough for all who may come, the candidate is taken. While the reward
    model has learned from no reward, all candidates tie, and the first m are taken.

    The index of a candidate must not depend on the other candidates of its pool. Those who come
    after the law has run out are taken while places are left. If fewer come than expected, places
    stay open, so that the probabilities may sum to less than m.

    With `epsilon` ε > 0, a candidate is taken with the probability (1 − ε)·1{index ≥ c(j, i)} +
    ε·min(1, j/n), where n is the number of candidates expected from i on. For a known number of
    candidates, the part of ε alone is simple random sampling, in which all have the probability
    m/n. For an unknown number N, it depends on the order of arrival: candidate i has the
    probability m·P(N ≥ i)/E[N] while the places left do not exceed the number expected, so that
    candidates who come early are taken more often. The inclusion probability of a candidate is
    Σ_j P(j places are left when it comes)·P(it is taken | j), by a recursion over the places.

    Args:
        count: the law of the number of candidates: `fixed`, `uniform`, `geometric`, or a list of
            the probabilities of 1, 2, … candidates.
        candidates: the number, the greatest number or the mean number of candidates of a named
            law. None is the size of each pool, for `fixed` only.
        epsilon: ε, from 0 to 1.

    Raises:
        FairbanditError: a value out of range.
    """

    reference = (
        "Moser, On a problem of Cayley, Scripta Mathematica 1956; Gilbert and Mosteller, "
        "Recognizing the maximum of a sequence, JASA 1966; relative ranks in the place of values "
        "are ours"
    )

    def __init__(
        self, *, count: Any = "fixed", candidates: int | None = None, epsilon: float = 0.0
    ) -> None:
        if not 0 <= epsilon <= 1:
            raise FairbanditError(f"epsilon (ε) must be from 0 to 1, got {epsilon}")
        self.count, self.candidates, self.epsilon = count, candidates, epsilon
        if count != "fixed" or candidates is not None:
            hazards(count, candidates)

    def select(self, ranked: Ranked, picks: int = 1) -> Selection:
        """Picks up to m places of each pool, in order of arrival; see `Selector.select`.

        Each candidate has a draw of its own if ε > 0.
        """
        course = self.watched(ranked, picks)
        k = course.taken.shape[2]
        places = torch.arange(k, device=course.taken.device)
        places = torch.where(course.taken, places, k).sort(2).values[..., :picks]
        places = torch.nn.functional.pad(places, (0, picks - places.shape[2]), value=k)
        empty = places == k
        places = places.masked_fill(empty, 0)
        propensities = course.inclusion.gather(2, places).masked_fill(empty, torch.nan)
        return Selection(places.masked_fill(empty, -1), propensities, course.inclusion)

    def _inclusion(self, ranked: Ranked, picks: int) -> Tensor:
        return self.watched(ranked, picks).inclusion

    def watched(self, ranked: Ranked, picks: int) -> Course:
        """Decides about the candidates of N pools in the order of their places; see `course`."""
        draws = ranked.scored.draws(Purpose.ORDER) if self.epsilon else None
        return self.course(seen(ranked), ranked.present, draws, picks)[0]

    def course(
        self,
        index: Approximate,
        present: Tensor,
        draws: Tensor | None,
        picks: int,
        law: tuple[float, ...] | None = None,
        before: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Course, tuple[Tensor, Tensor]]:
        """Decides about the candidates of N openings one after another.

        What happens to a candidate depends on no later candidate, unless the law is the size of
        the pool: the course of the first candidates is the first part of the course of all.

        Args:
            index: the index of every candidate, (B, N, K), as `seen` returns it.
            present: whether each place holds a candidate, (B, N, K) bool.
            draws: a uniform number in [0, 1) for each candidate who is decided, (B, N, K) or
                (B, N, 1); None for ε = 0.
            picks: m, the number of places to fill.
            law: the law of the number of candidates, as `hazards` returns it; None takes the law
                of this selector.
            before: the number of places left before the last candidate, (B, N), and the
                probabilities that it is 0 … m, (B, N, m + 1); None decides about all candidates.

        Returns:
            The course, in which only the last candidate counts if `before` is given; and what
            `before` is for a further candidate.
        """
        known = law is None and self.count == "fixed" and self.candidates is None
        if law is None:
            law = hazards(self.count, present.shape[2] if known else self.candidates)
        table = Thresholds(*(part.to(present.device) for part in thresholds(law, picks)))
        row = (present.cumsum(2) - 1).clamp(min=0)
        if known:  # row K − k of the table of K candidates is for k candidates to come
            row = row + len(table.bars) - present.sum(2, keepdim=True)
        row = row.clamp(max=len(table.bars) - 1)
        expected = table.expected[row]
        bars = self._bars(index, present, table.bars[row], expected)
        if before is None:
            left = torch.full(present.shape[:2], picks, device=present.device)
            chance = torch.zeros(*left.shape, picks + 1, dtype=bars.dtype, device=bars.device)
            chance[..., picks] = 1  # of j = 0 … m places being left
        else:
            left, chance = before[0], before[1].clone()
        number = torch.arange(1, picks + 1, device=bars.device)
        taken, inclusion = torch.zeros_like(present), torch.zeros_like(expected)
        met = torch.full_like(expected, torch.inf)
        last = present.shape[2]
        for k in range(0 if before is None else last - 1, last):
            reached = (index.high[..., k, None] >= bars[:, :, k]).to(bars.dtype)
            random = (number / expected[..., k, None]).clamp(max=1)
            take = (reached + self.epsilon * (random - reached)) * present[..., k, None]
            moved = chance[..., 1:] * take
            inclusion[..., k] = moved.sum(2)
            chance[..., 1:] -= moved
            chance[..., :-1] += moved
            own = (left - 1).clamp(min=0)[..., None]
            drawn = 0.5 if draws is None else draws[..., k - last]
            open_ = left > 0
            taken[..., k] = open_ & (drawn < take.gather(2, own)[..., 0])
            met[..., k] = bars[:, :, k].gather(2, own)[..., 0].where(open_, torch.inf)
            left = left - taken[..., k].to(left.dtype)
        return Course(taken, inclusion, met, expected), (left, chance)

    def _bars(self, index: Approximate, present: Tensor, c: Tensor, expected: Tensor) -> Tensor:
        """The threshold of each candidate with j = 1 … m places left, (B, N, K, m).

        Args:
            index, present: as for `course`; no threshold may depend on a later index.
            c: c(j, i), (B, N, K, m).
            expected: the number of candidates expected from each candidate on, (B, N, K).
        """
        return c.where(c > 0, -torch.inf)


@register("selector", "secretary")
class Secretary(Rolling):
    """The secretary rule: observes the first candidates, then takes those who surpass them.

    The first r = ⌊n/e⌋ of n expected candidates are let go. After them, with j places left, a
    candidate is taken if and only if its index is at least the j-th greatest of the first r, or if
    the places left are enough for all who may come. For one place, the rule finds the best
    candidate with probability about 1/e for every continuous law of the index; for m places it is
    the optimistic algorithm of Babaioff et al. `Rolling` describes the rest.

    Args:
        count, candidates, epsilon: as for `rolling`.
    """

    reference = (
        "Babaioff, Immorlica, Kempe and Kleinberg, A Knapsack Secretary Problem with Applications, "
        "APPROX 2007; for one place: Dynkin, The optimum choice of the instant for stopping a "
        "Markov process, 1963"
    )

    def _bars(self, index: Approximate, present: Tensor, c: Tensor, expected: Tensor) -> Tensor:
        first = (expected[..., :1] / math.e).floor()
        observed = present & (present.cumsum(2) <= first)
        low, m = index.low.where(observed, -torch.inf), c.shape[3]
        low = torch.nn.functional.pad(low, (0, m), value=-torch.inf)
        best = low.topk(m, 2).values[:, :, None]
        bars = best.where(~observed[..., None], torch.inf)
        return bars.where(c > 0, -torch.inf)


def seen(ranked: Ranked) -> Approximate:
    """Returns the index, with infinite slack while no reward is known: it reaches every bar."""
    value, slack = ranked.index
    known = ranked.scored.models.if_informed(torch.zeros_like(value), torch.inf)
    return Approximate(value, slack + known)
